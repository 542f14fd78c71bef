"""Main text in many languages: paragraphs of the sites' manuals in pages built like newspapers.

    python -m bench.extract_sites [--pages 12]

The article is the content of a manual's page (headings, paragraphs, code, in its own markup). The
page adds a menu, links to other pages of the same language, teasers of other articles, comments and
a footer, all from titles and sentences of other real pages. So the article is known exactly. The
measure is that of `bench.extract`; each Han character and kana is a token, because those scripts
have no spaces.
"""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode
from tests.servers.sites import create_sites

from bench.extract import Matching, Quality, lycosa, normalised, quality, stripped_tags
from bench.harness import arguments, report, table

MIN_CHARACTERS = 600  # of an article; a third for scripts that need fewer
DENSE = frozenset({"zh", "ja", "ko"})
_SUFFIX = re.compile(r"\.([a-z]{2})(?:-[a-z]+)?\.html$")
_FOLDER = re.compile(r"/(?:apache-manual|installation-guide)/([a-z]{2})(?:-[a-z]+)?/")
_CHROME = (
    ".navheader, .navfooter, .toc, .titlepage hr, #page-header, #path, #quickview, #footer, "
    ".toplang, .bottomlang, .top, .up"
)
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(slots=True, frozen=True)
class Article:
    """The content of a page of a manual: HTML blocks and their text."""

    title: str
    blocks: tuple[str, ...]
    text: str
    longest: str  # start of its longest paragraph


def matching(true: str, predicted: str) -> Matching:
    """Compare 4-token shingles by the tokens of this module."""
    expected, actual = (
        Counter(tuple(zip(*(tokens[place:] for place in range(4)), strict=False)))
        for tokens in (_TOKEN.findall(true), _TOKEN.findall(predicted))
    )
    return normalised(expected, actual)


def articles(roots: Sequence[Path]) -> dict[str, list[Article]]:
    """Return the articles by language, in the order of their files."""
    result: dict[str, list[Article]] = {}
    for path in sorted(path for root in roots for path in root.glob("**/*.html")):
        name = str(path)
        language = _SUFFIX.search(name) or _FOLDER.search(name)
        if language and (article := _read(path, language[1])):
            result.setdefault(language[1], []).append(article)
    return result


def _read(path: Path, language: str) -> Article | None:
    tree = LexborHTMLParser(path.read_bytes())
    title = tree.css_first("title")
    if tree.body is None or title is None:
        return None
    for node in tree.body.css(_CHROME):
        node.decompose()
    blocks = [node for node in tree.body.css("h2, h3, p, pre") if not _is_nested(node)]
    text = "\n".join(node.text() for node in blocks)
    longest = max((node.text().strip() for node in blocks if node.tag == "p"), key=len, default="")
    if len(text) < MIN_CHARACTERS // (3 if language in DENSE else 1) or not longest:
        return None
    return Article(
        " ".join(title.text().split()),
        tuple(node.html or "" for node in blocks),
        text,
        " ".join(longest.split())[:160],
    )


def _is_nested(node: LexborNode) -> bool:
    """Return whether a block is in another block."""
    parent = node.parent
    while parent is not None and parent.tag not in ("p", "pre"):
        parent = parent.parent
    return parent is not None


def build_page(
    article: Article, others: Sequence[Article], language: str, chance: random.Random
) -> bytes:
    """Return a page that contains an article."""

    def links(count: int) -> str:
        chosen = chance.choices(others, k=count)
        return "".join(
            f'<li><a href="/{chance.randrange(10**6)}.html">{html.escape(other.title)}</a></li>'
            for other in chosen
        )

    teasers = "".join(
        '<div class="teaser"><h3><a '
        f'href="/{number}.html">{html.escape(other.title)}</a></h3><p>{html.escape(other.longest[:90])}…</p></div>'
        for number, other in enumerate(chance.choices(others, k=6))
    )
    comments = "".join(
        f'<div class="comment"><b>user{number}</b> <p>{html.escape(other.longest[:70])}</p></div>'
        for number, other in enumerate(chance.choices(others, k=4))
    )
    return (
        f'<!doctype html><html lang="{language}"><head><meta '
        'charset="utf-8"><meta property="og:type" content="article">'
        f"<title>{html.escape(article.title)}</title></head><body>"
        f'<div id="top"><ul class="menu">{links(12)}</ul></div><div class="page"><div '
        f'class="left"><ul>{links(10)}</ul></div>'
        f'<div class="middle"><h1>{html.escape(article.title)}</h1><div '
        f'class="text">{"".join(article.blocks)}</div>'
        '<div class="share"><a href="#">Facebook</a> <a href="#">Twitter</a></div><div '
        f'id="comments">{comments}</div></div>'
        f'<div class="right">{teasers}</div></div><div id="footer"><ul>{links(8)}</ul>'
        f"<p>© 2026 {html.escape(article.title[:20])}</p></div></body></html>"
    ).encode()


def scores(
    result: dict[str, list[Article]], pages: int
) -> Iterator[tuple[str, int, Quality, Quality]]:
    """Yield language, pages, our quality and that of stripping tags.

    Languages with fewer than four articles are excluded.
    """
    for language, every in sorted(result.items()):
        if len(every) < 4:
            continue
        chance = random.Random(f"main text {language}")
        built = []
        for article in chance.sample(every, min(pages, len(every))):
            others = [other for other in every if other is not article]
            built.append((article, build_page(article, others, language, chance)))
        ours = quality([matching(article.text, lycosa(page)) for article, page in built])
        plain = quality([matching(article.text, stripped_tags(page)) for article, page in built])
        yield language, len(built), ours, plain


def main() -> None:
    options = arguments(__doc__, runs=1, pages=(12, "maximum per language")).parse_args()
    manuals = articles([site.root for site in create_sites()])
    rows = []
    for language, pages, ours, plain in scores(manuals, options.pages):
        figures = (ours.f1, ours.precision, ours.recall, plain.f1)
        rows.append((language, pages, *(f"{figure:.3f}" for figure in figures)))
    columns = ("language", "pages", "F1", "precision", "recall", "F1, tags stripped")
    report(options, "Main text of manuals", table(columns, rows), rows)


if __name__ == "__main__":
    main()
