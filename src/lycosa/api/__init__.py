"""The Python API: `Workspace` and the results of its methods. See docs/reference/python.md."""

from lycosa.api.results import PageStream, Result, Results
from lycosa.api.workspace import Workspace

__all__ = ["PageStream", "Result", "Results", "Workspace"]
