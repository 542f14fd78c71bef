"""Test links: kinds, anchors, base URLs, limits and refused URLs."""

from __future__ import annotations

import pytest

from lycosa.core.errors import Refusal
from lycosa.core.records import Exchange, Page
from lycosa.crawl.processing.page_reader import Reader
from lycosa.page.html.links import MAX_LINKS, header_links, refresh_target, resolve_links
from lycosa.page.parse import FAULT_ANCHOR_CUT, FAULT_LINKS_CUT, parse_page
from lycosa.url.normalise import LinkResolver

URL = "http://www.example.org/dir/page.html"


def parsed(html: str, **keywords: str) -> Page:
    return parse_page(
        html.encode(),
        url=URL,
        content_type=keywords.get("content_type", "text/html; charset=utf-8"),
    )


@pytest.mark.parametrize(
    ("html", "kind", "target", "anchor", "rel"),
    [
        (
            "<a href=x.html>An <b>anchor</b>\n text</a>",
            "a",
            "http://www.example.org/dir/x.html",
            "An anchor text",
            "",
        ),
        (
            "<a href='x.html#part' rel='NoFollow  UGC'>t</a>",
            "a",
            "http://www.example.org/dir/x.html",
            "t",
            "nofollow ugc",
        ),
        (
            "<a href=' /x '><img src=i.png alt='The  image'></a>",
            "a",
            "http://www.example.org/x",
            "The image",
            "",
        ),
        (
            "<a href=/x title='A title'><img src=i.png></a>",
            "a",
            "http://www.example.org/x",
            "A title",
            "",
        ),
        (
            "<embed src=/x title=t>",
            "iframe",
            "http://www.example.org/x",
            "t",
            "",
        ),
        (
            "<object data=/x></object>",
            "iframe",
            "http://www.example.org/x",
            "",
            "",
        ),
        (
            "<object><a href=/x>t</a></object>",
            "a",
            "http://www.example.org/x",
            "t",
            "",
        ),
        (
            "<link rel='alternate icon' href=/x>",
            "requisite",
            "http://www.example.org/x",
            "",
            "alternate icon",
        ),
        (
            "<x-y><template shadowrootmode=open><a href=/x>t</a></template></x-y>",
            "a",
            "http://www.example.org/x",
            "t",
            "",
        ),
        (
            "<img src='data:image/gif;base64,R0' data-src=/x alt=t>",
            "image",
            "http://www.example.org/x",
            "t",
            "",
        ),
        (
            "<a href=/x title='A title'><i class=icon></i></a>",
            "a",
            "http://www.example.org/x",
            "A title",
            "",
        ),
        (
            "<a href=/x title='A title'><code><span> One \n</span></code></a>",
            "a",
            "http://www.example.org/x",
            "One",
            "",
        ),
        (
            "<a href=/x title='A title'><b>One</b> two</a>",
            "a",
            "http://www.example.org/x",
            "One two",
            "",
        ),
        ("<a href=/x>One <span hidden>two</span></a>", "a", "http://www.example.org/x", "One", ""),
        (
            "<a href=/x><div>One</div><div>two</div></a>",
            "a",
            "http://www.example.org/x",
            "One two",
            "",
        ),
        ("<a href=/x>One<br>two</a>", "a", "http://www.example.org/x", "One two", ""),
        (
            "<div style='display: none'><a href=/x>Hidden</a></div>",
            "a",
            "http://www.example.org/x",
            "Hidden",
            "",
        ),
        ("<noscript><a href=/x>Plain</a></noscript>", "a", "http://www.example.org/x", "Plain", ""),
        (
            "<svg><a xlink:href=/x><text>Drawn</text></a></svg>",
            "a",
            "http://www.example.org/x",
            "Drawn",
            "",
        ),
        (
            "<map><area href=/x alt='An area'></map>",
            "area",
            "http://www.example.org/x",
            "An area",
            "",
        ),
        ("<iframe src=/x title=Inner></iframe>", "iframe", "http://www.example.org/x", "Inner", ""),
        (
            "<frameset><frame src=/x name=menu></frameset>",
            "frame",
            "http://www.example.org/x",
            "menu",
            "",
        ),
        ("<img src=/i.png alt=Alt>", "image", "http://www.example.org/i.png", "Alt", ""),
        ("<script src=/s.js></script>", "requisite", "http://www.example.org/s.js", "", ""),
        (
            "<link rel=stylesheet href=/s.css>",
            "requisite",
            "http://www.example.org/s.css",
            "",
            "stylesheet",
        ),
        (
            "<link rel='shortcut icon' href=/i.ico>",
            "requisite",
            "http://www.example.org/i.ico",
            "",
            "shortcut icon",
        ),
        ("<link rel=canonical href=/c>", "canonical", "http://www.example.org/c", "", "canonical"),
        (
            "<link rel=alternate hreflang=de href=/de>",
            "alternate",
            "http://www.example.org/de",
            "",
            "alternate",
        ),
        (
            "<link rel=alternate type=application/rss+xml title=News href=/f>",
            "feed",
            "http://www.example.org/f",
            "News",
            "alternate",
        ),
        (
            "<meta http-equiv=Refresh content='5; URL=/r'>",
            "refresh",
            "http://www.example.org/r",
            "",
            "",
        ),
    ],
)
def test_kinds_of_links(html: str, kind: str, target: str, anchor: str, rel: str) -> None:
    links = [link for link in parsed(html).links if link.kind == kind]
    assert [(link.target, link.anchor, link.rel) for link in links] == [(target, anchor, rel)]


@pytest.mark.parametrize(
    "html",
    [
        "<iframe srcdoc='&lt;p&gt;text &lt;a href=x&gt;in&lt;/a&gt;'></iframe>",
        "<frameset><frame><noframes><p>text <a href=x>in</a></noframes></frameset>",
    ],
)
def test_links_in_embedded_html_are_read(html: str) -> None:
    page = parsed(f"<base href=/b/>{html}")
    assert [(link.target, link.anchor) for link in page.links] == [
        ("http://www.example.org/b/x", "in")
    ]
    assert page.text == ""


@pytest.mark.parametrize(
    "html",
    [
        "<a name=x>t</a>",
        "<a href='#top'>t</a>",
        "<link rel='alternate stylesheet'>",
        "<link rel=author href=/a>",
        "<link rel=alternate type=application/json href=/wp-json/1>",
        "<link rel=alternate type='text/xml+oembed; charset=utf-8' href=/oembed>",
        "<link rel=alternate type=text/calendar hreflang=de href=/calendar>",
        "<a>x</a>",
    ],
)
def test_elements_that_are_not_links(html: str) -> None:
    assert parsed(html).links == []


def test_the_first_base_with_an_href_applies_to_all_links() -> None:
    page = parsed(
        "<a href=one>1</a><base target=_top><base href='/other/'><base "
        "href='/third/'><a href=two>2</a><a href='#x'>3</a>"
    )
    assert [link.target for link in page.links] == [
        "http://www.example.org/other/one",
        "http://www.example.org/other/two",
        "http://www.example.org/other/",
    ]


def test_an_invalid_base_is_ignored() -> None:
    assert [
        link.target for link in parsed("<base href='javascript:x'><a href=one>1</a>").links
    ] == ["http://www.example.org/dir/one"]


def test_refused_hrefs_are_counted() -> None:
    page = parsed(
        "<a href=mailto:x@y>m</a><a href=javascript:void(0)>j</a><a "
        "href='http://[::'>u</a><a href=ok>o</a>"
    )
    assert page.refused == {"scheme": 2, "unparsable": 1}
    assert [link.anchor for link in page.links] == ["o"]


def test_equal_links_are_stored_once() -> None:
    page = parsed("<a href=x>t</a><a href='x#y'>t</a><a href=x>u</a><img src=x alt=t>")
    assert [(link.anchor, link.kind, link.position) for link in page.links] == [
        ("t", "a", 0),
        ("u", "a", 1),
        ("t", "image", 2),
    ]


def test_a_link_is_followed_if_one_of_equal_ones_has_no_nofollow() -> None:
    page = parsed("<a href=x rel=nofollow>t</a><a href=x rel=tag>t</a><a href=x rel=nofollow>t</a>")
    assert [(link.anchor, link.rel) for link in page.links] == [("t", "tag")]


@pytest.mark.proves("limits-links")
def test_links_and_anchors_are_bounded() -> None:
    page = parsed(
        "".join(f"<a href=/{number}>t</a>" for number in range(MAX_LINKS + 10))
        + f"<a href=/>{'word ' * 1000}</a>"
    )
    assert (len(page.links), page.faults) == (MAX_LINKS, [FAULT_LINKS_CUT, FAULT_ANCHOR_CUT])
    page = parsed(f"<a href=/>{'word ' * 1000}</a>")
    assert len(page.links[0].anchor) <= 500
    assert page.faults == [FAULT_ANCHOR_CUT]


def test_queries_are_encoded_in_the_charset_of_the_page() -> None:
    page = parse_page(
        "<a href='?q=б'>t</a>".encode("cp1251"),
        url=URL,
        content_type="text/html; charset=windows-1251",
    )
    assert page.links[0].target == "http://www.example.org/dir/page.html?q=%E1"


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=x", "x"),
        ("5; URL = 'x y'", "x y"),
        ('3,url="x"z', "x"),
        (".5 x", "x"),
        ("1.2.3;x", "x"),
        ("5", ""),
        ("5;", ""),
        ("url=x", ""),
        ("-1;url=x", ""),
        ("", ""),
    ],
)
def test_targets_of_meta_refresh(content: str, target: str) -> None:
    assert refresh_target(content) == target


def test_refreshes_of_a_header_and_of_an_element_with_a_name() -> None:
    body = b'<base href=/b/><meta name=x http-equiv=Refresh content="0;url=y">'
    headers = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nRefresh: 0;url=x\r\n\r\n"
    exchange = Exchange(URL, "page", 0, 0, response_head=headers, body=body)
    page = Reader(1 << 20, "lycosa")(exchange).page
    assert page is not None
    assert [(link.kind, link.target) for link in page.links] == [
        ("refresh", "http://www.example.org/b/x"),
        ("refresh", "http://www.example.org/b/y"),
    ]


def test_link_headers_do_not_depend_on_the_base() -> None:
    page = parse_page(
        b'<base href="http://cdn.test/"><a href=a>t</a>',
        url="http://www.example.org/dir/",
        content_type="text/html",
        link_headers=[
            "<c>; rel=canonical, <d>; rel=alternate; hreflang=de, <http://[>; rel=canonical"
        ],
    )
    assert page.canonical == "http://www.example.org/dir/c"
    assert [each.url for each in page.alternates] == ["http://www.example.org/dir/d"]
    assert page.links[0].target == "http://cdn.test/a"


def test_types_of_alternates_decide() -> None:
    types = ["", "text/html", "text/plain", "Application/PDF", "application/rss+xml", "image/png"]
    header = ", ".join(
        f'<{n}>; rel=alternate; hreflang=de; type="{name}"' for n, name in enumerate(types)
    )
    html = "".join(
        f"<link rel=alternate hreflang=de type='{name}' href={n}>" for n, name in enumerate(types)
    )
    for page in (parse_page(b"", url=URL, link_headers=[header]), parsed(html)):
        assert [link.kind for link in page.links] == ["alternate"] * 4 + ["feed"]
        assert len(page.alternates) == 4


def test_link_headers() -> None:
    value = (
        '</c>; rel="canonical", <http://x/,y>; rel=alternate; hreflang="de"; title="a, '
        '\\"b\\"" , broken'
    )
    assert [(target, parameters["rel"]) for target, parameters in header_links([value])] == [
        ("/c", "canonical"),
        ("http://x/,y", "alternate"),
    ]
    page = parse_page(
        b"<p>x",
        url=URL,
        link_headers=['</c>; rel="canonical"', "</de>; rel=alternate; hreflang=de"],
    )
    assert page.canonical == "http://www.example.org/c"
    assert [tuple(item) for item in page.alternates] == [("de", "http://www.example.org/de")]
    page = parse_page(
        b"<link rel=canonical href=/own>", url=URL, link_headers=['</c>; rel="canonical"']
    )
    assert page.canonical == "http://www.example.org/own"


@pytest.mark.parametrize("with_base", [False, True])
def test_resolved_links_equal_those_of_the_resolver(with_base: bool) -> None:
    hrefs = [
        "x.html",
        "x.html#part",
        "x.html #part",
        "x.html#",
        " x.html",
        "#top",
        "",
        "?q#f",
        "/a b#c",
        "mailto:a@b#c",
        "http://[#x",
        "x.html#",
    ]
    references = [("a", href, "", str(number)) for number, href in enumerate(hrefs)]
    for _ in range(2):  # the second time from the cache
        links, refused, _ = resolve_links(references, LinkResolver(URL), with_base)
        expected = [
            LinkResolver(URL).resolve(href) for href in hrefs if with_base or href[:1] != "#"
        ]
        assert [link.target for link in links] == [
            target for target in expected if not isinstance(target, Refusal)
        ]
        assert sum(refused.values()) == sum(isinstance(target, Refusal) for target in expected) == 2


def test_a_malformed_link_header_does_not_affect_the_others() -> None:
    value = '</a>; rel=next, nonsense; "x, </b>; rel="prev", <unclosed, </c>; rel=up'
    assert [target for target, _ in header_links([value])] == ["/a", "/b", "unclosed, </c"]
    assert [target for target, _ in header_links([", , </d>;rel=next,,</e>"])] == ["/d", "/e"]
    assert header_links(["<," * 4_000]) == []
