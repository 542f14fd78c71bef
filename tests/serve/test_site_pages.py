"""The pages of sites match the site report, and the map is safe."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from urllib.parse import urlsplit

import pytest

from lycosa.serve.sites.pages import LISTS
from lycosa.site.report import report_of
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.serve.client import Client
from tests.serve.conftest import HOSTILE_PATH
from tests.serve.pages import Document


@pytest.fixture(scope="module")
def site(workspace: str) -> str:
    """Host and port of the first demo site, which has broken links."""
    pages = LiveTables(Workspace.open(workspace)).scan("pages").collect()
    return next(str(urlsplit(url).netloc) for url in pages["url"] if "//127.0.2.1:" in url)


def test_overview_and_lists_match_the_report(client: Client, workspace: str, site: str) -> None:
    report = report_of(workspace, site)
    assert report.broken, "the demo site has a broken link on purpose"
    assert f"{report.pages}" in Document(client.get("/site", {"name": site}).text).text("dd")
    for listing in LISTS:
        rows = getattr(report, listing.key)
        shown = Document(client.get("/site", {"name": site, "show": listing.key}).text)
        assert len(shown.all("tr")) == (len(rows[:100]) + 1 if rows else 0), listing.key
    broken = Document(client.get("/site", {"name": site, "show": "broken"}).text)
    assert report.broken[0].target in broken.text("bdi")


def test_sites_are_listed_and_unknown_sites_are_not_found(client: Client, site: str) -> None:
    host = site.partition(":")[0]
    assert host in Document(client.get("/sites").text).text("a")
    assert host not in Document(client.get("/sites", {"like": "nowhere"}).text).text("a")
    for path in ("/site", "/site/map.svg", "/site/changes", "/api/v1/site", "/api/v1/changes"):
        assert client.get(path, {"name": "nowhere.example"}).status_code == 404
        assert client.get(path).status_code == 422


def test_map_is_an_svg_image_without_scripts(client: Client, workspace: str) -> None:
    pages = LiveTables(Workspace.open(workspace)).scan("pages").collect()
    hostile = next(urlsplit(url).netloc for url in pages["url"] if url.endswith(HOSTILE_PATH))
    answer = client.get("/site/map.svg", {"name": hostile})
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in answer.headers["content-security-policy"]
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(answer.text).iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "g"}


def test_map_is_translated(client: Client, site: str) -> None:
    english, spanish = (
        client.get("/site/map.svg", {"name": site}, {"accept-language": code}).text
        for code in ("en", "es")
    )
    for text, translation in (
        ("not reachable", "inaccesibles"),
        ("outgoing links", "enlaces salientes"),
    ):
        assert text in english
        assert text not in spanish
        assert translation in spanish


def test_changes_page_and_api(client: Client, workspace: str, site: str) -> None:
    pages = LiveTables(Workspace.open(workspace)).scan("pages").collect()
    site_urls = [url for url in pages["url"] if urlsplit(url).netloc == site]
    page = Document(client.get("/site/changes", {"name": site}).text)
    assert len(page.all("tr")) - 1 == len(site_urls)
    changes = client.get("/api/v1/changes", {"name": site, "days": 3650}).json()
    assert {change["kind"] for change in changes} == {"new"}
    parameters: dict[str, str | int] = {"name": site, "days": 3650, "offset": 1, "n": 2}
    assert client.get("/api/v1/changes", parameters).json() == changes[1:3]
    assert client.get("/api/v1/site", {"name": site}).json()["pages"] == len(site_urls)
    assert client.get("/site/changes", {"name": site, "days": 0}).status_code == 422
