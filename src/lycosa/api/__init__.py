"""The Python API: `Workspace`. See docs/reference/python.md."""

from lycosa.api.workspace import Workspace

__all__ = ["Workspace"]
