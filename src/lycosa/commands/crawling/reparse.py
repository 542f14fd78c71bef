"""`reparse` on a workspace: own it, claim, parse again, index."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

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
        stated = workspace.state().settings
        settings = {name: {**values, REPARSED: True} for name, values in stated.items()}
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
                with_markdown=_with_markdown(config, stated),
            )
        claim.release()
    if report.changed:
        Indexer(root, config.index).update()
    return report


def _with_markdown(config: Config, stated: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the collections whose pages are stored as Markdown too: those of the configuration,
    others by the settings of their last crawl.
    """
    chosen = {name: bool(values.get("markdown")) for name, values in stated.items()}
    chosen |= {each.name: each.markdown for each in config.collection}
    return {name for name, stored in chosen.items() if stored}
