"""Feeds of a search and the OpenSearch description: valid by their formats, parsed with lxml."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qs, urlsplit

from lxml import etree, html

from lycosa.search.engine.searcher import Hit, SearchResults
from lycosa.serve.search.feeds import atom, rss
from lycosa.serve.search.views import PageQuery
from tests.serve.client import Client

ATOM = "{http://www.w3.org/2005/Atom}"
OPENSEARCH = "{http://a9.com/-/spec/opensearch/1.1/}"
BASE = "http://127.0.0.1"
QUERY = "night OR spider OR page"


def result_urls(client: Client, **parameters: str) -> list[str]:
    return [
        hit["url"]
        for hit in client.get(
            "/api/v1/search", {"q": QUERY, "n": 20, "sort": "date", **parameters}
        ).json()["hits"]
    ]


def test_rss_feed_contains_the_search_results(client: Client) -> None:
    response = client.get("/search.rss", {"q": QUERY})
    assert response.headers["content-type"].startswith("application/rss+xml")
    root = etree.fromstring(response.content)
    (channel,) = root
    assert (root.tag, root.get("version"), channel.tag) == ("rss", "2.0", "channel")
    assert all(channel.findtext(name) for name in ("title", "link", "description"))
    assert [item.findtext("guid") for item in channel.iter("item")] == result_urls(client)
    times = [parsedate_to_datetime(item.findtext("pubDate")) for item in channel.iter("item")]
    assert all(time.tzinfo for time in times)
    assert int(channel.findtext(f"{OPENSEARCH}totalResults")) >= len(times) > 3
    assert parse_qs(urlsplit(channel.find(f"{ATOM}link").get("href")).query)["q"] == [QUERY]


def test_atom_feed_has_the_elements_that_rfc_4287_requires(client: Client) -> None:
    response = client.get("/search.atom", {"q": QUERY, "lang": "en", "n": 5})
    assert response.headers["content-type"].startswith("application/atom+xml")
    feed = etree.fromstring(response.content)
    assert feed.tag == f"{ATOM}feed"
    for name in ("id", "title", "updated"):
        assert len(feed.findall(f"{ATOM}{name}")) == 1
    assert feed.findtext(f"{ATOM}author/{ATOM}name")
    entries = feed.findall(f"{ATOM}entry")
    assert [entry.findtext(f"{ATOM}id") for entry in entries] == result_urls(client, lang="en")[:5]
    for entry in entries:
        assert [len(entry.findall(f"{ATOM}{name}")) for name in ("id", "title", "updated")] == [
            1,
            1,
            1,
        ]
        assert datetime.fromisoformat(entry.findtext(f"{ATOM}updated")).tzinfo
        assert entry.find(f"{ATOM}link").get("href") == entry.findtext(f"{ATOM}id")
        assert entry.get("{http://www.w3.org/XML/1998/namespace}lang") == "en"


def test_untrusted_text_is_escaped_in_feeds(client: Client) -> None:
    """Titles and snippets that look like markup, and characters that XML cannot hold."""
    for path in ("/search.rss", "/search.atom"):
        root = etree.fromstring(client.get(path, {"q": "venomous"}).content)
        titles = [
            element.text for element in root.iter() if element.tag in ("title", f"{ATOM}title")
        ]
        assert any("<script>" in title for title in titles)
        assert not list(root.iter("script", f"{ATOM}script"))
    hit = Hit(
        "http://h.test/\x0b",
        "a\x00b\ufffe <c>\ud800",
        [("x\x1b]]>", False)],
        "",
        "h.test",
        "default",
        2**62,
        None,
        1.0,
    )
    results = SearchResults("q\x01", 1, [hit], 0.1, 0, 1, [])
    for written in (
        rss(PageQuery("q\x01"), results, BASE),
        atom(PageQuery("q\x01"), results, BASE),
    ):
        text = "".join(etree.fromstring(written).itertext())
        assert "ab <c>" in text
        assert "x]]>" in text


def test_description_of_an_rss_item_is_its_text_as_html() -> None:
    text = "a <b>tag</b> & an &amp;"
    hit = Hit("http://h.test/", "t", [(text, False)], "", "h.test", "default", 0, None, 1.0)
    results = SearchResults("q", 1, [hit], 0.1, 0, 1, [])
    item = etree.fromstring(rss(PageQuery("q"), results, BASE)).find("channel/item")
    assert html.fromstring(f"<p>{item.findtext('description')}</p>").text_content() == text


def test_opensearch_templates_and_feed_links_work(client: Client) -> None:
    page = html.fromstring(client.get("/", {"q": QUERY}).text)
    (link,) = page.xpath('//link[@rel="search"]/@href')
    root = etree.fromstring(client.get(link).content)
    assert root.tag == f"{OPENSEARCH}OpenSearchDescription"
    assert 0 < len(root.findtext(f"{OPENSEARCH}ShortName")) <= 16
    assert 0 < len(root.findtext(f"{OPENSEARCH}Description")) <= 1024
    templates = {
        url.get("type"): url.get("template")
        for url in root.findall(f"{OPENSEARCH}Url")
        if url.get("rel") is None
    }
    assert set(templates) == {"text/html", "application/rss+xml", "application/atom+xml"}
    for kind, template in templates.items():
        address = template.replace("{searchTerms}", "spider")
        assert "{" not in address, "browsers insert their own language, which would be a filter"
        assert address.startswith(f"{BASE}/")
        answer = client.get(address.removeprefix(BASE))
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
    for kind in ("atom", "rss"):
        (feed,) = page.xpath(f'//link[@rel="alternate"][@type="application/{kind}+xml"]/@href')
        assert client.get(feed).status_code == 200


def test_feed_with_invalid_parameters_is_refused(client: Client) -> None:
    assert client.get("/search.rss").status_code == 422
    assert client.get("/search.atom", {"q": "x", "n": 1000}).status_code == 422
