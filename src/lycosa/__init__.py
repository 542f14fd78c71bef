"""Web crawler, web archive and multilingual search engine. From Python: `Workspace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lycosa.api import Workspace as Workspace
    from lycosa.core.errors import LycosaError as LycosaError

    __version__: str

__all__ = ["LycosaError", "Workspace", "__version__"]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from lycosa.core.version import VERSION

        return VERSION
    if name == "Workspace":  # loaded on use: every command imports this package
        from lycosa.api import Workspace

        return Workspace
    if name == "LycosaError":
        from lycosa.core.errors import LycosaError

        return LycosaError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
