"""`reparse` on a workspace: own it, claim, parse again, index."""

from __future__ import annotations

from contextlib import closing

from lycosa.config.settings import Config
from lycosa.crawl.documents.pool import DocumentPool, document_limits
from lycosa.crawl.processing.page_reader import Reader
from lycosa.crawl.recovery.reparse import Reparsed, reparse
from lycosa.crawl.session.session import REPARSED
from lycosa.fetch.robots_txt import product_token
from lycosa.index.indexer import Indexer
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace


def reparse_workspace(
    root: str, config: Config, collection: str | None, since_ms: int | None, worker: str
) -> Reparsed:
    """Parse what is archived again and bring the index up to date.

    Raises:
        OwnedError: another process is crawling in this workspace.
        WorkError: the archive or the log is damaged.
    """
    workspace = Workspace.open(root)
    with workspace.own("reparse"):
        settings = {
            name: {**values, REPARSED: True} for name, values in workspace.state().settings.items()
        }
        claim = workspace.claim(worker, settings=settings)
        with closing(DocumentPool(document_limits(config))) as documents:
            reader = Reader(
                config.fetch.max_decoded, product_token(config.fetch.user_agent), documents
            )
            report = reparse(
                claim,
                LiveTables(workspace),
                reader,
                workspace.path,
                collection=collection,
                since_ms=since_ms,
            )
        claim.release()
    if report.changed:
        Indexer(root, config.index).update()
    return report
