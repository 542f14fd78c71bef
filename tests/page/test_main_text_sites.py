"""Main text in the languages of the sites' manuals, in pages built around their paragraphs
(`bench.extract_sites`).
"""

from __future__ import annotations

from bench.extract_sites import articles, scores

from tests.servers.sites import require_sites

LEAST = 0.965
"""F1 of each language; the lowest is Italian with .974."""


def test_the_article_is_found_in_every_language() -> None:
    actual = {
        language: (ours.f1, plain.f1)
        for language, _, ours, plain in scores(
            articles([site.root for site in require_sites()]), 12
        )
    }
    assert len(actual) >= 20
    assert {language: figures for language, figures in actual.items() if figures[0] < LEAST} == {}
    assert all(ours > plain + 0.1 for ours, plain in actual.values())
