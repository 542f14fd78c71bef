"""Test Markdown of pages: blocks, inline markup and left-out regions."""

from __future__ import annotations

import random
import re
import time

import pytest
from bench.markdown import _PARSER, TEMPLATES, URL, Blocks, blocks, documents, f1, page
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.html.document import read_html
from lycosa.page.html.markdown import MarkdownMode, page_markdown

BASE = "https://www.example.org/docs/page.html"
PROSE = "This is a sentence of prose that is long enough to be main text, and it has no links."


def markdown(html: str, mode: MarkdownMode = MarkdownMode.FULL) -> str:
    return page_markdown(html.encode(), url=BASE, mode=mode)


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h1>One</h1><h3>Two <b>bold</b></h3><p>Text", "# One\n\n### Two **bold**\n\nText"),
        ("<p>a <b>b</b><i> c</i> <del>d</del>", "a **b** *c* ~~d~~"),
        ("<p><b><b>x</b></b><strong></strong>", "**x**"),
        ("<p><code>a`b</code> <kbd>x * y</kbd>", "``a`b`` `x * y`"),
        (
            "<p><code>f(<a href=b>b_c</a>, *x)</code> <code><a href=c>`</a><a href=javascript:x>d",
            "`f(`[`b_c`](https://www.example.org/docs/b)`, *x)` "
            "[`` ` ``](https://www.example.org/docs/c)`d`",
        ),
        ("<p>2 * 3_4 [x] &lt;b>", r"2 \* 3\_4 \[x\] \<b>"),
        ("<p>&amp;lt; AT&amp;T ~ ~~x~~", r"\&lt; AT&T ~ \~\~x\~\~"),
        ("<p>New!<a href=/x>More</a>", r"New\![More](https://www.example.org/x)"),
        (
            "<p># no heading</p><p>1. no item</p><p>- none",
            "\\# no heading\n\n1\\. no item\n\n\\- none",
        ),
        ("<p>line<br>break", "line  \nbreak"),
        ("<p>one<br>\n<br><br>two <b>three <br><br> four</b>", "one\n\ntwo **three**\n\n**four**"),
        ("<ul><li>a<br><br>b</ul>", "- a\n\n  b"),
        ("<table><tr><td>a<br><br>b<td>c</table>", "|  |  |\n| --- | --- |\n| a<br><br>b | c |"),
        ("<pre><div>a <a href=x>b</a></div><div>c</div></pre>", "```\na bc\n```"),
        ("<p>of the\nsource <code>a\nb</code>", "of the source `a b`"),
        (
            '<p><a href="../a(1).html#b">the <code>link</code></a>',
            "[the `link`](https://www.example.org/a%281%29.html#b)",
        ),
        ('<p><a href="javascript:x()">x</a> <a>y</a> <a href="#z"></a>', "x y"),
        ('<p><a href="mailto:a@b.org">x</a> <a href="mailto:a b">y</a>', "[x](mailto:a@b.org) y"),
        ('<h2>Title<a class="headerlink" href="#t">¶</a></h2>', "## Title"),
        ('<h2>Title<a class="hash-link" href="#t">\u200b</a></h2>', "## Title"),
        (
            '<p>see <img src="a.png" alt="An [image]">',
            r"see ![An \[image\]](https://www.example.org/docs/a.png)",
        ),
        (
            '<p>see <img src="data:image/gif;base64,R0" data-src=a.png><img srcset="b,c.png 1x, d.png 2x">',
            "see ![](https://www.example.org/docs/a.png)![](https://www.example.org/docs/b,c.png)",
        ),
        ("<ul><li>a<ul><li>b</ul><li><p>c</p><p>d</p></ul>", "- a\n  - b\n- c\n\n  d"),
        (
            "<ol start=9><li>a<li>b<pre>x\n y</pre></ol>",
            "9. a\n10. b\n\n    ```\n    x\n     y\n    ```",
        ),
        (
            "<ul><li><input type=checkbox checked> done<li><input type=checkbox> open</ul>",
            "- [x] done\n- [ ] open",
        ),
        ("<input type=checkbox id=menu><p>a", "a"),
        ("<blockquote><p>a</p><ul><li>b</ul></blockquote>", "> a\n>\n> - b"),
        (
            "<table><tr><th>A<th>B<tr><td>1|2<td><b>x</b><br>y</table>",
            "| A | B |\n| --- | --- |\n| 1\\|2 | **x**<br>y |",
        ),
        (
            "<table><tr><th rowspan=2>A<th colspan=2>B<th>C<tr><td>b<td>c<td>d<tr><td colspan=2>e<td>f"
            "<td rowspan=0>g<tr><td>h<td>i<td>j<td>k</table>",
            "| A | B |  | C |  |\n| --- | --- | --- | --- | --- |\n|  | b | c | d |  |\n"
            "| e |  | f | g |  |\n| h | i | j |  | k |",
        ),
        ("<table><tr><td>a<td>b</table>", "|  |  |\n| --- | --- |\n| a | b |"),
        ("<table><tr><td><h2>Layout</h2><p>Text</p><td>Side</table>", "## Layout\n\nText\n\nSide"),
        (
            "<table><tr><td>a<td>b<tr><td><ul><li>c<li>d</ul>e<table><tr><td>f<td>g</table><td>h</table>",
            "a\n\nb\n\n- c\n- d\n\ne\n\n|  |  |\n| --- | --- |\n| f | g |\n\nh",
        ),
        (
            '<pre><code class="language-py">if x:\n    y()\n</code></pre>',
            "```py\nif x:\n    y()\n```",
        ),
        ('<div class="highlight-source-sh"><pre>a</pre></div>', "```sh\na\n```"),
        ('<pre><code data-lang="go">a</code></pre>', "```go\na\n```"),
        ('<div class="highlight-sh"><pre>a <span>b</span></pre></div>', "```sh\na b\n```"),
        ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
        ("<pre><code><span>a<br></span><span>b</span></code></pre>", "```\na\nb\n```"),
        (
            '<p><math><mi>x</mi><annotation encoding="application/x-tex">x^2</annotation></math> y',
            "$x^2$ y",
        ),
        (
            '<span class=katex-mathml><math><mi>x</mi><annotation encoding="application/x-tex">x'
            "</annotation></math></span><span class=katex-html>x</span> <code><math><mi>y</mi></math>",
            "$x$ `y`",
        ),
        ("<p>a <span hidden>b</span><script>c</script>", "a"),
        ("", ""),
    ],
)
def test_markup(html: str, expected: str) -> None:
    assert markdown(html).rstrip("\n") == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("これは<b>重要</b>です", "これは**重要**です"),
        ("<b>「重要」</b>。<i>「語」</i>", "**「重要」**。*「語」*"),
        ("<b>「重要」</b>です", "<strong>「重要」</strong>です"),
        ("は<i>「重要」な</i>こと", "は<em>「重要」な</em>こと"),
        ("<b>注意：</b>次 <b>Note:</b> x", "<strong>注意：</strong>次 **Note:** x"),
        ("f<del>(x)</del>y", "f<del>(x)</del>y"),
        ("は<i><b>「語」</b></i>です", "は<em><strong>「語」</strong></em>です"),
        (
            "は<b><a href=/u>リンク</a></b>です",
            "は<strong>[リンク](https://www.example.org/u)</strong>です",
        ),
        ("<b>a</b><b>b</b>", "**a**<strong>b</strong>"),
        ("a<i><b>b</b></i>c", "a***b***c"),
    ],
)
def test_emphasis_next_to_letters_is_emphasis_for_parsers(html: str, expected: str) -> None:
    text = markdown(f"<p>{html}")
    assert text.strip() == expected
    rendered = _PARSER.render(text)
    for tag, name in (("b", "strong"), ("i", "em"), ("del", "(?:del|s)")):
        assert len(re.findall(f"<{name}>", rendered)) == html.count(f"<{tag}>"), rendered


def test_main_mode_has_title_and_main_text() -> None:
    menu = "".join(f"<li><a href=/{number}>Menu entry {number}</a>" for number in range(20))
    content = f"<h1>Title</h1><p>{PROSE}</p><h2>See also</h2><ul><li><a href=/x>Other</a></ul>"
    html = (
        f"<nav><ul>{menu}</ul></nav><main>{content}<p>{PROSE}</p></main>"
        f"<footer><p>{PROSE} Imprint.</p></footer><div class=cookie-consent>{PROSE} Cookies.</div>"
    )
    output = markdown(html, MarkdownMode.MAIN)
    assert output.startswith(
        f"# Title\n\n{PROSE}\n\n## See also\n\n- [Other](https://www.example.org/x)"
    )
    assert not any(word in output for word in ("Menu", "Imprint", "Cookies"))
    assert "Menu entry 7" in markdown(html, MarkdownMode.FULL)


MENU = "".join(f"<li><a href=/{number}>Menu entry {number}</a>" for number in range(40))


def test_the_menu_of_a_short_page_is_left_out() -> None:
    html = f"<nav><ul>{MENU}</ul></nav><main><h1>Tool</h1><p>See the manual.</p></main><p>By X</p>"
    assert "Menu" not in markdown(html, MarkdownMode.MAIN)


def test_short_sections_of_documentation_are_kept() -> None:
    """The main text may be one long section; Markdown has all sections."""
    long = "".join(f"<h2>Option {number}</h2><p>{PROSE}<pre>code()</pre>" for number in range(30))
    html = (
        f"<nav><ul>{MENU}</ul></nav><main role=main><section><h1>Tool</h1><p>Short.</p></section>"
        f"<section><h1>Changes</h1>{long}</section></main>"
    )
    output = page_markdown(html.encode(), url="https://docs.example.org/docs/guide/tool")
    assert output.startswith("# Tool\n\nShort.\n\n# Changes\n")


def test_a_forum_has_only_its_posts() -> None:
    posts = "".join(
        f"<div class=post><div><a href=/u/{number}>member{number}</a></div><div><p>{PROSE} {number}."
        f"<br><br>{PROSE}</div></div>"
        for number in range(8)
    )
    html = f"<nav><ul>{MENU}</ul></nav><h1>A question</h1><div>{posts}</div><p>By X"
    output = page_markdown(html.encode(), url="https://forum.example.org/t/a-question/1")
    assert output == "# A question\n\n" + "".join(
        f"{PROSE} {number}.\n\n{PROSE}\n\n" for number in range(8)
    ).removesuffix("\n")


def test_citations_number_the_links() -> None:
    html = f"<p>{PROSE} <a href=/x>One</a> and <a href=/y>two</a>, <a href=/x>one</a>.</p>"
    assert markdown(html, MarkdownMode.CITATIONS) == (
        f"{PROSE} One [1] and two [2], one [1].\n\n"
        "[1]: https://www.example.org/x\n[2]: https://www.example.org/y\n"
    )


def test_markup_does_not_change_what_is_read() -> None:
    html = (
        "<p><a href=x>one</a><b><a href=y>two</a></b><a href=z><i>three</i></a></p>"
        "<p><a href=x>\n  <img src=i alt=image>\n  </a><span>four</span></p><p><a href=y> </a>five"
    )
    plain, marked = (read_html(html.encode(), marked=marked)[0] for marked in (False, True))
    assert plain.lines == ["one two three", "four", "image", "five"] == marked.lines
    assert plain.blocks == marked.blocks


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Markdown documents."""
    return documents([])


@pytest.fixture(scope="module")
def texts_with_blocks(texts: list[str]) -> list[tuple[str, Blocks]]:
    """The documents with their blocks."""
    return [(text, blocks(text, URL)) for text in texts]


def test_markdown_contains_the_visible_text(texts: list[str]) -> None:
    generator = random.Random(3)
    for text in texts[:20]:
        payload = page(text, "mkdocs-material", generator)
        lines = read_html(payload)[0].lines
        output = page_markdown(payload, url=URL, mode=MarkdownMode.FULL)
        output = re.sub(r"\]\(\S*?\)", "]", output)
        letters = "".join(letter for letter in output if letter.isalnum())
        for line in lines:
            words = "".join(letter for letter in line if letter.isalnum())
            if "Material" not in line:
                assert words in letters, line


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_markdown_documents_are_recovered_from_their_pages(
    texts_with_blocks: list[tuple[str, Blocks]], template: str
) -> None:
    generator = random.Random(template)
    assert len(texts_with_blocks) >= 20
    scores = [
        f1(true, blocks(page_markdown(page(text, template, generator), url=URL), URL))
        for text, true in texts_with_blocks
    ]
    assert sum(scores) / len(scores) >= 0.95


@pytest.mark.parametrize("opening", ["<ul><li>", "<blockquote>", "<table><tr><td>"])
def test_deep_nesting(opening: str) -> None:
    started = time.process_time()
    assert "last words" in markdown(opening * 1_000 + "<p>a" * 5_000 + "<p>last words")
    assert time.process_time() - started < 10


@given(st.text(st.sampled_from('<>/="abp tdrhuliove12\n&;#\0\ufdd0'), max_size=300))
def test_any_bytes_give_markdown(html: str) -> None:
    for mode in MarkdownMode:
        markdown(html, mode)
