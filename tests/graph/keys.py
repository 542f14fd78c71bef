"""Read the keys of the pages of a corpus."""

from __future__ import annotations

from lycosa.store.tables.live import LiveTables
from tests.index.corpus import Corpus


def url_keys(corpus: Corpus) -> dict[str, int]:
    """Return URL -> url_key of all stored pages."""
    pages = LiveTables(corpus.workspace).scan("pages").select("url", "url_key")
    return dict(pages.collect().iter_rows())
