"""The words of a workspace."""

from __future__ import annotations

import polars as pl

from lycosa.core.errors import WorkspaceError
from lycosa.search.query.term_statistics import TermsReport, TermsRequest, count_terms
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace

_ATTEMPTS = 3


def workspace_terms(root: str, request: TermsRequest) -> TermsReport:
    """Count the words of a workspace as it is now.

    Raises:
        WorkspaceError: there is no workspace, or it cannot be read.
    """
    gone: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            return count_terms(LiveTables(Workspace.open(root)), request)
        except FileNotFoundError as error:  # a merge took a file away: read the log again
            gone = error
        except pl.exceptions.PolarsError as error:
            raise WorkspaceError(
                f"the tables cannot be read: {error}; run `lycosa check`"
            ) from None
    raise WorkspaceError(f"a table file is missing: {gone}; run `lycosa check`")
