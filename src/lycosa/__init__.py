"""Web crawler, web archive and multilingual search engine. From Python: `open_workspace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lycosa.api import OpenWorkspace as OpenWorkspace
    from lycosa.api import open_workspace as open_workspace

    __version__: str

__all__ = ["OpenWorkspace", "__version__", "open_workspace"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from lycosa.core.version import VERSION

        return VERSION
    if name in __all__:  # when it is asked for: every command imports this file
        from lycosa import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
