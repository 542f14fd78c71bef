"""Markdown by round trip: documents are rendered to pages of sites, and recovered from them.

    python -m bench.markdown [DIR …] [--template NAME] [--generators] [--count N]

The documents are the Markdown descriptions of the installed Python packages, and the `.md` files
in each DIR (such as /usr/share/doc/nodejs). Those with raw HTML are excluded, because they cannot be
compared as plain blocks. Each is rendered by markdown-it into a template: documentation sites in
the style of MkDocs Material, Sphinx and Docusaurus, a blog in the style of WordPress, and a news
site. They add navigation, cookie note, sidebar, permalinks and footer. With `--generators`, real
programs render them (`bench.generators`): MkDocs Material, Sphinx, and DOCX, PPTX and PDF files.

Blocks are compared by kind and text, as multisets: headings with their level, paragraphs, list
items, table cells, listings (byte by byte) and links. Prints F1 by template and by kind, and CPU
per page.
"""

from __future__ import annotations

import html
import random
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import urljoin

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bench.generators import GENERATORS, generated, recovered, without_images
from bench.harness import arguments, report, table, timed

URL = "https://docs.example.org/guide/page/"
MIN_LENGTH, MAX_LENGTH = 800, 60_000
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_PARSER = MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"])

Blocks = Counter[tuple[str, str]]


def documents(folders: Sequence[Path]) -> list[str]:
    """Return Markdown documents without raw HTML, in a fixed order."""
    texts = {
        str(fields["description"])
        for fields in (each.metadata.json for each in distributions())
        if "markdown" in fields.get("description_content_type", "")
    }
    for folder in folders:
        texts |= {path.read_text(errors="replace") for path in folder.rglob("*.md")}
    texts = {_FRONT_MATTER.sub("", text) for text in texts}
    return sorted(
        text
        for text in texts
        if MIN_LENGTH <= len(text) <= MAX_LENGTH
        and not any(token.type.startswith("html") for token in _flat(_PARSER.parse(text)))
    )


def _flat(tokens: Sequence[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from token.children or ()


def blocks(text: str, base: str) -> Blocks:
    """Return the blocks of a document: (kind, text)."""
    result: Blocks = Counter()
    kinds: list[str] = []
    for token in _PARSER.parse(text):
        if token.type in ("fence", "code_block"):
            result["listing", token.content.strip("\n")] += 1
        elif token.nesting == 1:
            kinds.append(
                f"heading {token.tag[1]}"
                if token.tag[:1] == "h"
                else token.type.removesuffix("_open")
            )
        elif token.nesting == -1:
            kinds.pop()
        elif token.type == "inline":
            inner = [each for each in kinds if each not in ("blockquote", "thead", "tbody", "tr")]
            kind = {"th": "cell", "td": "cell"}.get(inner[-1], inner[-1])
            if kind == "paragraph" and "list_item" in inner:
                kind = "item"
            content = _plain(token, result, base)
            if content:
                result[kind, content] += 1
    return result


def _plain(token: Token, result: Blocks, base: str) -> str:
    """Return the text of an inline token without markup; count its links."""
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif child.type == "link_open":
            target = urljoin(base, str(child.attrs["href"]))
            result["link", re.sub(r"[^\w]+", " ", target).strip()] += 1
    return " ".join("".join(parts).split())


def _navigation(chance: random.Random, count: int) -> str:
    words = [
        "Overview",
        "Install",
        "Guide",
        "Reference",
        "Settings",
        "Plugins",
        "Community",
        "Blog",
        "Support",
        "Roadmap",
    ]
    return "".join(
        f'<li><a href="/{number}/">{chance.choice(words)} {number}</a></li>'
        for number in range(count)
    )


def _permalinks(body: str, markup: str) -> str:
    return re.sub(
        r"<h([1-6])>(.*?)</h\1>",
        lambda match: f'<h{match[1]} id="x">{match[2]}{markup}</h{match[1]}>',
        body,
        flags=re.DOTALL,
    )


def mkdocs_material(body: str, chance: random.Random) -> str:
    content = _permalinks(body, '<a class="headerlink" href="#x" title="Permanent link">&para;</a>')
    content = re.sub(
        r'<pre><code( class="[^"]*")?>',
        r'<div class="highlight"><pre><span></span><code\1>',
        content,
    ).replace("</code></pre>", "</code></pre></div>")
    return (
        f'<body><header class="md-header"><nav class="md-header__inner"><ul>{_navigation(chance, 5)}'
        '</ul></nav></header><div class="md-container"><main class="md-main"><div class="md-sidebar '
        f'md-sidebar--primary"><nav class="md-nav"><ul>{_navigation(chance, 30)}</ul></nav></div>'
        '<div class="md-content"><article class="md-content__inner md-typeset">'
        '<a href="/edit" title="Edit this page" class="md-content__button"><svg></svg></a>'
        f'{content}</article></div></main><footer class="md-footer"><p>Made with Material for MkDocs'
        '</p></footer></div><div class="md-consent"><p>We use cookies to recognise your repeated '
        "visits and preferences, and to measure how our documentation works.</p></div></body>"
    )


def sphinx(body: str, chance: random.Random) -> str:
    content = _permalinks(body, '<a class="headerlink" href="#x" title="Link">¶</a>')
    content = re.sub(
        r'<pre><code(?: class="language-(\w+)")?>(.*?)</code></pre>',
        lambda match: (
            f'<div class="highlight-{match[1] or "default"} notranslate"><div '
            f'class="highlight"><pre><span></span>{match[2]}</pre></div></div>'
        ),
        content,
        flags=re.DOTALL,
    )
    return (
        f'<body><div class="related" role="navigation"><ul>{_navigation(chance, 4)}</ul></div>'
        '<div class="document"><div class="documentwrapper"><div class="bodywrapper"><div '
        f'class="body" role="main"><section id="a">{content}</section></div></div></div>'
        '<div class="sphinxsidebar" role="navigation"><h3>Table of Contents</h3>'
        f"<ul>{_navigation(chance, 20)}</ul><h3>This Page</h3><ul><li><a>Show Source</a></li></ul>"
        '</div></div><div class="footer" role="contentinfo">&copy; Copyright 2026. Created using '
        "Sphinx.</div></body>"
    )


def docusaurus(body: str, chance: random.Random) -> str:
    content = _permalinks(body, '<a href="#x" class="hash-link" aria-label="Direct link">​</a>')
    content = re.sub(
        r'<pre><code(?: class="language-(\w+)")?>(.*?)</code></pre>',
        lambda match: (
            f'<div class="language-{match[1] or "text"} codeBlockContainer"><div '
            f'class="codeBlockContent"><pre class="prism-code language-{match[1] or "text"}"><code>'
            + "".join(
                f'<span class="token-line">{line}<br></span>'
                for line in match[2].rstrip("\n").split("\n")
            )
            + '</code></pre><div class="buttonGroup"><button type="button" aria-label="Copy code">Copy'
            "</button></div></div></div>"
        ),
        content,
        flags=re.DOTALL,
    )
    return (
        f'<body><div id="__docusaurus"><nav class="navbar"><ul>{_navigation(chance, 6)}</ul></nav>'
        '<div class="main-wrapper"><aside class="theme-doc-sidebar-container"><ul class="menu__list">'
        f'{_navigation(chance, 40)}</ul></aside><main><article><nav class="breadcrumbs"><ul>'
        f'<li><a href="/">Docs</a></li></ul></nav><div class="theme-doc-markdown markdown">{content}'
        '</div><footer class="theme-doc-footer"><a href="/edit">Edit this page</a></footer></article>'
        f'<nav class="pagination-nav"><a href="/n">Next Deployment</a></nav></main>'
        f'<div class="table-of-contents"><ul>{_navigation(chance, 8)}</ul></div></div>'
        '<footer class="footer"><p>Copyright 2026 Project, Inc. Built with Docusaurus.</p></footer>'
        "</div></body>"
    )


def wordpress(body: str, chance: random.Random) -> str:
    return (
        f'<body class="single-post"><header id="masthead"><ul class="menu">{_navigation(chance, 8)}'
        '</ul></header><div id="content" class="site-content"><div id="primary"><main id="main">'
        '<article class="post hentry"><div class="entry-meta">Posted on <time datetime="2026-11-02">'
        f'November 2, 2026</time> by <a href="/author/x">admin</a></div><div class="entry-content">'
        f'{body}</div><div class="sharedaddy"><h3>Share this:</h3><ul><li><a href="#">Facebook</a>'
        f'</li><li><a href="#">Twitter</a></li></ul></div></article><div id="comments" '
        'class="comments-area"><h2>2 thoughts</h2><ol class="comment-list"><li class="comment"><p>'
        "Thank you, that was very helpful for what we are building here.</p></li></ol></div></main>"
        f'</div><aside id="secondary" class="widget-area"><section class="widget"><h2>Recent Posts'
        f"</h2><ul>{_navigation(chance, 12)}</ul></section></aside></div><footer "
        'id="colophon"><p>Proudly powered by WordPress</p></footer><div id="cookie-law-info-bar">'
        "<span>This website uses cookies to improve your experience. We'll assume you're ok with "
        'this. <a role="button">Accept</a></span></div></body>'
    )


def news(body: str, chance: random.Random) -> str:
    teasers = "".join(
        f'<div class="teaser"><h3><a href="/n/{number}">Another story of the day number {number}</a>'
        "</h3><p>What happened next surprised people in the small town by the sea.</p></div>"
        for number in range(6)
    )
    return (
        '<head><meta property="og:type" content="article"></head><body><div id="top"><ul '
        f'class="nav">{_navigation(chance, 12)}</ul></div><div class="wrap"><div class="story-body">'
        f'{body}</div><div class="share-tools"><a href="#">Share</a></div><div class="related">'
        f'<h2>More on this story</h2>{teasers}</div></div><div class="footer"><p>&copy; 2026 The '
        'Daily Example. All rights reserved.</p></div><div class="cookie-consent">We and our partners '
        "store and access information on a device, such as cookies.</div></body>"
    )


TEMPLATES = {
    "mkdocs-material": mkdocs_material,
    "sphinx": sphinx,
    "docusaurus": docusaurus,
    "wordpress": wordpress,
    "news": news,
}


def page(document: str, template: str, chance: random.Random) -> bytes:
    """Render a document as a page of a site."""
    title = html.escape(document.strip().split("\n")[0].lstrip("# "))
    body = TEMPLATES[template](_PARSER.render(document), chance)
    return f"<!doctype html><html lang=en><title>{title}</title>{body}</html>".encode()


def f1(true: Blocks, recovered: Blocks) -> float:
    total = true.total() + recovered.total()
    return 2 * (true & recovered).total() / total if total else 1.0


def main() -> None:
    parser = arguments(
        __doc__,
        runs=1,
        generators=(False, "render by real programs"),
        count=(int, "number of documents, spread over all"),
    )
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--template", choices=[*TEMPLATES, *GENERATORS], action="append")
    options = parser.parse_args()
    texts = documents(options.folders)
    texts = texts[:: max(1, len(texts) // (options.count or len(texts)))]
    names = options.template or (GENERATORS if options.generators else TEMPLATES)
    rows = [_compared(name, texts) for name in names]
    body = table(("template", "F1, mean", *KINDS, "CPU ms per page"), rows)
    report(options, "Markdown", f"{body}\n\n{len(texts)} documents", rows)


def _rendered(name: str, texts: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return documents, each with the output of a template or program."""
    if name in TEMPLATES:
        chance = random.Random(name)
        return [(text, page(text, name, chance)) for text in texts]
    plain = [without_images(text, URL) for text in texts]
    pairs = zip(plain, generated(name, plain), strict=True)
    return [(text, payload) for text, payload in pairs if payload]


def _compared(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the row of a template or program: F1, also by kind, and CPU."""
    scores, times_ms = [], []
    by_kind: dict[str, tuple[Blocks, Blocks]] = {kind: (Counter(), Counter()) for kind in KINDS}
    for text, payload in _rendered(name, texts):
        result, _, cpu_ms = timed(partial(recovered, payload, URL))
        times_ms.append(cpu_ms)
        pair = blocks(text, URL), blocks(result, URL)
        scores.append(f1(*pair))
        for side, of_side in enumerate(pair):
            for (kind, content), count in of_side.items():
                by_kind[kind.split()[0]][side][kind, content] += count
    figures = [f"{f1(*by_kind[kind]):.3f}" for kind in KINDS]
    return name, f"{statistics.mean(scores):.3f}", *figures, f"{statistics.mean(times_ms):.2f}"


KINDS = ("heading", "paragraph", "item", "cell", "listing", "link")


if __name__ == "__main__":
    main()
