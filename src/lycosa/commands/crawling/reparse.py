"""`reparse` on a workspace: own it, claim, parse again, index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lycosa.commands.maintenance.engine_jobs import update_index
from lycosa.config.settings import Collection, Config
from lycosa.crawl.documents.pool import document_limits, document_reader
from lycosa.crawl.processing.page_reader import item_extractor
from lycosa.crawl.recovery.reparse import Reparsed, extract_items, reparse
from lycosa.crawl.session.session import REPARSED
from lycosa.hooks.plugins import installed_plugins
from lycosa.store.log.state import LogState
from lycosa.store.tables.live import LiveTables, plugin_columns
from lycosa.store.workspace import Workspace

_SCHEMAS = {"fields", "items"}  # settings of a collection


def reparse_workspace(
    root: str,
    config: Config,
    collection: str | None,
    since_ms: int | None,
    worker: str,
    *,
    fields_only: bool = False,
    report: Callable[[str], None] = lambda message: None,
) -> Reparsed:
    """Parse archived pages again and update the index.

    Args:
        fields_only: extract items only; text, links and index do not change.
        report: gets lines for the user.

    Raises:
        OwnedError: another process is crawling in this workspace.
        UsageError: a plug-in has columns with wrong names.
        WorkError: the archive or the log is damaged.
    """
    workspace = Workspace.open(root)
    plugins = installed_plugins()
    plugin_columns(plugins)
    with workspace.own("reparse"):
        state = workspace.state()
        collections = _collections(config, state)
        claim = workspace.claim(
            worker, settings=_settings(collections, state, links_too=not fields_only)
        )
        extractor = item_extractor(plugins, collections)
        with document_reader(document_limits(config), extractor) as reader:
            tables = LiveTables(workspace)
            if fields_only:
                result = extract_items(
                    claim, tables, reader, workspace.path, collection=collection, since_ms=since_ms
                )
            else:
                result = reparse(
                    claim,
                    tables,
                    reader,
                    workspace.path,
                    collection=collection,
                    since_ms=since_ms,
                    with_markdown=_with_markdown(config, state.settings),
                )
        claim.release()
    plugins.call("archive_reparsed", root=root, entry=state.head, report=report)
    if result.changed and not fields_only:
        vectors = update_index(root, config).vectors
        if vectors is not None and vectors.problem:
            report(f"chunks without vectors: {vectors.problem}")
    return result


def _with_markdown(config: Config, stated: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the collections that store their pages as Markdown too.

    The configuration decides, or for other collections the settings of their last crawl.
    """
    chosen = {name: bool(values.get("markdown")) for name, values in stated.items()}
    chosen |= {each.name: each.markdown for each in config.collection}
    return {name for name, stored in chosen.items() if stored}


def _collections(config: Config, state: LogState) -> list[Collection]:
    """Return the configured collections, and others with stored schemas."""
    configured = {each.name for each in config.collection}
    stored = [
        Collection(name=name, **{key: values[key] for key in _SCHEMAS if values.get(key)})
        for name, values in state.settings.items()
        if name not in configured
    ]
    return [*config.collection, *stored]


def _settings(
    collections: Iterable[Collection], state: LogState, *, links_too: bool
) -> dict[str, dict[str, Any]]:
    """Return the stored settings of the collections, with the schemas that are used now."""
    schemas = {each.name: each.model_dump(mode="json", include=_SCHEMAS) for each in collections}
    reparsed = {REPARSED: True} if links_too else {}
    return {
        name: {**values, **schemas[name], **reparsed} for name, values in state.settings.items()
    }
