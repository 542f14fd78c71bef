"""The web application over a real index: search page, API, errors and headers."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lycosa.config.serving import ServeSettings
from lycosa.core.errors import WorkspaceError
from lycosa.serve.app import create_app
from lycosa.serve.web import concurrency
from lycosa.serve.web.request_bodies import MAX_BODY_BYTES
from lycosa.serve.web.security import SECURITY_HEADERS, allowed_hosts, host_of
from tests.serve.client import Client
from tests.serve.conftest import HOSTILE_TITLE
from tests.serve.pages import SEARCH_SCRIPTS, Document

HTML = {"accept": "text/html,application/xhtml+xml"}


def test_start_page_offers_the_languages_of_the_index(client: Client) -> None:
    page = Document(client.get("/", headers=HTML).text)
    codes = [option["value"] for option in page.all("option")]
    assert codes[0] == ""
    assert set(codes) >= {"en", "zh", "de", "fr", "es", "ru", "ja", "ar"}
    assert any(name.startswith("中文 (") for name in page.text("option"))


def test_results_show_title_matches_date_and_url(client: Client) -> None:
    page = Document(client.get("/", params={"q": "egg sac"}, headers=HTML).text)
    assert "Mothers with a load · The Wolf Spider Pages" in page.text("h2")
    assert {"egg", "sac"} <= {word for text in page.text("mark") for word in text.lower().split()}
    assert "12 March 2026" in page.text("time")
    hrefs = [
        link["href"] for link in page.all("a") if link.get("rel") == "noopener noreferrer nofollow"
    ]
    assert any(href.endswith("/life/mothers.html") for href in hrefs)


def test_results_in_chinese_and_arabic_carry_language_and_direction(client: Client) -> None:
    chinese = Document(client.get("/", params={"q": "龙井茶"}, headers=HTML).text)
    assert {"lang": "zh", "dir": "ltr"} in chinese.all("h2")
    assert "龙井茶" in chinese.text("mark")
    arabic = Document(client.get("/", params={"q": "الثريا"}, headers=HTML).text)
    assert {"lang": "ar", "dir": "rtl"} in arabic.all("h2")


def test_language_and_site_filter_the_search(client: Client) -> None:
    german = client.get("/api/v1/search", params={"q": "Siel", "lang": "de"}).json()
    assert german["total"] > 0
    assert {hit["language"] for hit in german["hits"]} == {"de"}
    assert client.get("/api/v1/search", params={"q": "Siel", "lang": "ja"}).json()["hits"] == []
    one_site = client.get(
        "/api/v1/search", params={"q": "Leuchtturm", "site": "127.0.2.2", "n": 50}
    ).json()
    assert {hit["host"] for hit in one_site["hits"]} == {"127.0.2.2"}
    folder = client.get("/api/v1/search", params={"q": "spider", "site": "127.0.2.1/life/"}).json()
    assert folder["total"] > 0
    assert {urlsplit(hit["url"]).path.split("/")[1] for hit in folder["hits"]} == {"life"}
    terms = [
        client.get("/api/v1/terms", params={"site": site}).json()["pages"]
        for site in ("127.0.2.1/life", "http://127.0.2.1:99/life/eyes.html", "127.0.2.1/li")
    ]
    assert terms == [folder["total"], 1, 0]


def test_unknown_facets_are_refused(client: Client) -> None:
    response = client.get("/api/v1/search", params={"q": "egg", "facets": "host,size"})
    assert response.status_code == 400
    assert response.json()["detail"].startswith("unknown facet 'size'; choose from language, ")


@pytest.mark.parametrize(
    ("path", "name", "value", "valid"),
    [
        ("search", "lang", "xx1", "two letters (ISO 639-1)"),
        ("passages", "site", "not a host", "a host, host:port or URL"),
        ("terms", "site", "not a host", "a host, host:port or URL"),
        ("suggest", "lang", "xx1", "two letters (ISO 639-1)"),
        ("similar", "lang", "xx1", "two letters (ISO 639-1)"),
        ("search", "translate", "haus", "XX:WORD=A|B"),
    ],
)
def test_invalid_filters_are_refused(
    client: Client, path: str, name: str, value: str, valid: str
) -> None:
    query = {"q": "egg", "url": "http://a.test/", "across": "all", name: value}
    response = client.get(f"/api/v1/{path}", query)
    assert response.status_code == 422
    [fault] = response.json()["faults"]
    assert fault["parameter"].removesuffix(".0") == name
    assert fault["message"].startswith(("'", "the translation '"))
    assert (value in fault["message"], valid in fault["message"]) == (True, True)
    if path == "search":
        page = client.get("/", query, headers=HTML)
        assert page.status_code == 422
        assert valid in page.text
        typed = [
            (field.get("name"), field.get("value")) for field in Document(page.text).all("input")
        ]
        assert ("q", "egg") in typed


def test_page_with_an_invalid_site_shows_it_for_correction(client: Client) -> None:
    page = client.get("/", {"q": "egg", "site": "not a host"}, headers=HTML)
    assert page.status_code == 422
    assert "a host, host:port or URL" in page.text
    [field] = [each for each in Document(page.text).all("input") if each.get("name") == "site"]
    assert (field["type"], field["value"]) == ("text", "not a host")


@pytest.mark.parametrize("path", ["search", "passages", "terms"])
def test_unknown_collections_are_refused(client: Client, path: str) -> None:
    response = client.get(f"/api/v1/{path}", params={"q": "egg", "collection": "defualt"})
    assert response.status_code == 400
    assert response.json()["detail"] == ("unknown collection 'defualt'; did you mean 'default'?")


def test_long_queries_are_cut_with_a_note(client: Client) -> None:
    parameters = {"q": "egg " + "x" * 3_000}
    note = "characters of the query were used"
    for path in ("search", "passages"):
        answer = client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["notes"][0].endswith(note)
    page = client.get("/", params=parameters, headers=HTML)
    assert (page.status_code, note in page.text) == (200, True)
    assert client.get("/search.rss", params=parameters).status_code == 200


def test_api_returns_the_results_of_the_page(client: Client) -> None:
    answer = client.get("/api/v1/search", params={"q": "egg sac", "n": 3}).json()
    assert answer["query"] == "egg sac"
    assert answer["generation"] >= 1
    assert 0 < len(answer["hits"]) <= 3
    first = answer["hits"][0]
    assert first["url"].startswith("http://127.0.2.1:")
    assert first["collection"] == "default"
    assert "".join(piece["text"] for piece in first["fragments"]) == first["snippet"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", first["fetched_at"])
    titles = Document(client.get("/", params={"q": "egg sac"}, headers=HTML).text).text("h2")
    assert titles[: len(answer["hits"])] == [hit["title"] for hit in answer["hits"]]


def test_paging_shows_every_result_once(client: Client) -> None:
    expected = client.get("/api/v1/search", params={"q": "lang:en", "n": 100}).json()
    assert expected["total"] > 10
    shown: list[str] = []
    address: str | None = "/?q=lang%3Aen"
    for _ in range(20):
        if address is None:
            break
        page = Document(client.get(address, headers=HTML).text)
        shown += [link["href"] for link in page.all("a") if "noreferrer" in link.get("rel", "")]
        address = next((link["href"] for link in page.all("a") if link.get("rel") == "next"), None)
    assert shown == [hit["url"] for hit in expected["hits"]]


def test_api_counts_explains_and_sorts(client: Client) -> None:
    parameters: dict[str, str | int] = {
        "q": "spider",
        "n": 5,
        "facets": "language,host,type",
        "explain": "true",
        "sort": "relevance",
        "per_host": 1,
    }
    answer = client.get("/api/v1/search", params=parameters).json()
    assert set(answer["facets"]) == {"language", "host", "type"}
    for values in answer["facets"].values():
        counts = [each["count"] for each in values]
        assert counts == sorted(counts, reverse=True)
        assert sum(counts) >= answer["total"]
    first = answer["hits"][0]
    explanation = first["explanation"]
    assert explanation["words"] * explanation["prior"] * explanation["freshness"] == pytest.approx(
        first["score"], rel=1e-3
    )
    assert {"copies", "from_host", "type"} <= set(first)
    assert (
        client.get("/api/v1/search", params={"q": "spider"}).json()["hits"][0]["explanation"]
        is None
    )
    newest = client.get("/api/v1/search", params={"q": "spider", "sort": "date"}).json()["hits"]
    dates = [hit["published_at"] or hit["fetched_at"] for hit in newest]
    assert dates == sorted(dates, reverse=True)
    assert client.get("/api/v1/search", params={"q": "spider", "sort": "size"}).status_code == 422
    assert client.get("/api/v1/search", params={"q": "x", "across": "de,zz"}).status_code == 422


def test_facets_of_the_page_link_to_filtered_results(client: Client) -> None:
    page = Document(client.get("/", params={"q": "spider"}, headers=HTML).text)
    links = {link["href"] for link in page.all("a")}
    narrowed = {link for link in links if link.startswith("/?q=spider&site=")}
    assert narrowed
    assert "/?q=spider&sort=date" in links
    for address in sorted(narrowed)[:2]:
        assert client.get(address, headers=HTML).status_code == 200


def test_page_number_beyond_the_results_reports_no_more_results(client: Client) -> None:
    response = client.get("/", params={"q": "egg sac", "page": 90}, headers=HTML)
    assert response.status_code == 200
    assert "No more results" in Document(response.text).text("h2")


def test_page_without_results_links_to_the_unfiltered_search(client: Client) -> None:
    page = Document(
        client.get(
            "/", params={"q": "egg sac", "lang": "ja", "site": "127.0.2.1"}, headers=HTML
        ).text
    )
    assert "No results" in page.text("h2")
    assert "/?q=egg+sac" in [link["href"] for link in page.all("a")]


@pytest.mark.proves("access-escaping")
@pytest.mark.parametrize(
    "query",
    [
        "site:127.0.2.10 venomous",
        "venomous paragraph",
        HOSTILE_TITLE,
        "</title><script>alert(1)</script>",
    ],
)
def test_hostile_text_is_escaped(client: Client, query: str) -> None:
    page = Document(client.get("/", params={"q": query}, headers=HTML).text)
    assert page.all("script") == SEARCH_SCRIPTS
    assert page.all("img") == page.all("b") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.all("input")[0]["value"] == query
    if "venomous" in query:
        assert any(HOSTILE_TITLE in title for title in page.text("h2"))


def test_page_loads_nothing_from_other_hosts(client: Client) -> None:
    for address in ("/", "/?q=spider", "/nowhere"):
        page = Document(client.get(address, headers=HTML).text)
        loaded = [
            attributes.get("src", attributes.get("href", ""))
            for tag, attributes in page.elements
            if tag not in ("a", "form")
        ]
        assert all(not urlsplit(reference).netloc for reference in loaded)
        assert all(form["action"] == "/" for form in page.all("form"))
    style = client.get("/static/style.css").text
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.proves("access-policy")
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?q=spider",
        "/?page=0",
        "/nowhere",
        "/static/style.css",
        "/api/v1/search",
        "/api/v1/search?q=x",
        "/healthz",
        "/robots.txt",
    ],
)
def test_every_response_has_the_security_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert {name: headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_only_static_files_are_cached_and_they_are_validated(client: Client) -> None:
    style = client.get("/static/style.css").headers
    assert style["cache-control"] == "no-cache"
    cached = client.get("/static/style.css", headers={"if-none-match": style["etag"]})
    assert cached.status_code == 304
    assert client.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("parameters", "wrong"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "x", "n": "0"}, "n"),
        ({"q": "x", "n": "many"}, "n"),
        ({"q": "x", "offset": "-1"}, "offset"),
    ],
)
def test_invalid_parameters_are_named_in_the_problem(
    client: Client, parameters: dict[str, str], wrong: str
) -> None:
    response = client.get("/api/v1/search", params=parameters)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == 422
    assert [fault["parameter"] for fault in problem["faults"]] == [wrong]


@pytest.mark.parametrize("path", ["search", "passages", "terms"])
def test_unknown_languages_and_sites_are_refused(client: Client, path: str) -> None:
    for filters in ({"lang": "english"}, {"site": "[::1"}):
        problem = client.get(f"/api/v1/{path}", {"q": "spider", **filters}).json()
        assert problem["status"] == 422


def test_unknown_paths_are_not_found(client: Client) -> None:
    problem = client.get("/api/v1/nothing", headers=HTML)
    assert (problem.status_code, problem.headers["content-type"]) == (
        404,
        "application/problem+json",
    )
    page = client.get("/nothing", headers=HTML)
    assert (page.status_code, Document(page.text).text("h1")) == (404, ["Page not found"])
    posted = client.request("POST", "/api/v1/search")
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET")


def test_status_reports_pages_and_languages(client: Client) -> None:
    status = client.get("/api/v1/status").json()
    assert status["pages"] > 60
    assert status["languages"]["zh"] >= 8


def test_search_without_an_index_reports_that_no_pages_are_indexed(empty_workspace: str) -> None:
    client = Client(create_app(empty_workspace, dict))
    assert client.get("/", headers=HTML).status_code == 200
    page = client.get("/", params={"q": "spider"}, headers=HTML)
    assert page.status_code == 200
    assert "No pages are indexed yet" in Document(page.text).text("h2")
    answer = client.get("/api/v1/search", params={"q": "spider"}).json()
    assert (answer["total"], answer["generation"], answer["hits"]) == (0, 0, [])


def test_missing_workspace_is_reported_as_unavailable(tmp_path: object) -> None:
    def status() -> dict[str, object]:
        raise WorkspaceError("not a workspace")

    client = Client(create_app(f"{tmp_path}/nowhere", status))
    for path in ("/api/v1/search?q=x", "/api/v1/status"):
        response = client.get(path)
        assert response.status_code == 503
        assert "not a workspace" in response.json()["detail"]
    assert client.get("/?q=x", headers=HTML).status_code == 503
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.proves("access-errors")
def test_internal_error_is_a_problem_response(empty_workspace: str) -> None:
    def status() -> dict[str, object]:
        raise ZeroDivisionError

    response = Client(create_app(empty_workspace, status)).get("/api/v1/status")
    assert (
        response.status_code,
        response.headers["content-type"],
        response.headers["content-security-policy"],
    ) == (500, "application/problem+json", SECURITY_HEADERS["content-security-policy"])
    assert "ZeroDivision" not in response.text


@pytest.mark.parametrize(
    "path", ["/", "/?q=spider", "/api/v1/search?q=spider", "/static/style.css", "/healthz"]
)
def test_head_is_get_without_the_body(client: Client, path: str) -> None:
    head = client.request("HEAD", path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == client.get(path).headers["content-type"]


@pytest.mark.proves("access-errors")
@settings(max_examples=60)
@given(
    query=st.text(max_size=60),
    language=st.text(max_size=4),
    site=st.text(max_size=10),
    offset=st.integers(-1, 1001),
)
def test_no_input_causes_an_internal_error(
    client: Client, query: str, language: str, site: str, offset: int
) -> None:
    parameters: dict[str, str | int] = {
        "q": query,
        "lang": language,
        "site": site,
        "offset": offset,
    }
    assert client.get("/api/v1/search", params=parameters).status_code in (200, 422)
    page = client.get("/", params={**parameters, "page": offset}, headers=HTML)
    assert page.status_code in (200, 422)
    Document(page.text)


def test_openapi_describes_the_api(client: Client) -> None:
    document = client.get("/api/v1/openapi.json").json()
    assert {"/api/v1/search", "/api/v1/status", "/healthz"} <= set(document["paths"])
    assert "/" not in document["paths"]
    names = {
        parameter["name"] for parameter in document["paths"]["/api/v1/search"]["get"]["parameters"]
    }
    assert names == {
        "q",
        "hops",
        "n",
        "offset",
        "lang",
        "collection",
        "site",
        "sort",
        "per_host",
        "fold",
        "facets",
        "explain",
        "feedback",
        "spelling",
        "across",
        "from",
        "translate",
    }
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    protected = {
        path
        for path, methods in document["paths"].items()
        for operation in methods.values()
        if operation.get("security") == [{"token": []}]
    }
    assert {"/api/v1/urls", "/api/v1/matches", "/api/v1/hunts"} <= protected
    assert "/api/v1/search" not in protected


@pytest.mark.proves("access-loopback")
def test_foreign_host_header_is_refused(workspace: str) -> None:
    app = create_app(workspace, dict, allowed_hosts("127.0.0.1"))
    client = Client(app, base_url="http://127.0.0.1:8000")
    assert client.get("/healthz").status_code == 200
    assert client.get("/healthz", headers={"host": "LOCALHOST:8000"}).status_code == 200
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", ""):
        refused = client.get("/api/v1/search", params={"q": "spider"}, headers={"host": host})
        assert refused.status_code == 421
        assert "spider" not in refused.text
        assert refused.headers["x-content-type-options"] == "nosniff"


def test_middleware_refuses_browsers_with_a_page(
    workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(workspace, dict, allowed_hosts("127.0.0.1"), limits=ServeSettings(rate=1))
    client = Client(app, base_url="http://127.0.0.1:8000")
    browser = HTML | {"accept-language": "es"}
    foreign = client.get("/", headers=browser | {"host": "evil.example"})
    large = client.send("POST", "/login", b"a" * (MAX_BODY_BYTES + 1), browser)
    frequent = [client.request("GET", "/", headers=browser, address="192.0.2.1") for _ in range(5)]
    monkeypatch.setattr(concurrency, "MAX_WAITING", 0)
    busy = client.get("/", headers=browser)
    for response, status, title, wait in (
        (foreign, 421, "Este servidor solo responde a su propia dirección", None),
        (large, 413, "La solicitud es demasiado grande", None),
        (frequent[-1], 429, "Demasiadas solicitudes", "1"),
        (busy, 503, "El servidor está ocupado", "5"),
    ):
        assert (response.status_code, response.headers.get("retry-after")) == (status, wait)
        assert f"<h1>{title}</h1>" in response.text
    problem = client.get("/api/v1/status", headers=browser)
    assert problem.json()["title"] == "The server is busy"


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("a.example:80", "a.example"),
        ("[::1]:8000", "[::1]"),
        ("[::1]", "[::1]"),
        (" A.Example ", "a.example"),
        ("", ""),
    ],
)
def test_host_of(header: str, host: str) -> None:
    assert host_of(header) == host


def test_host_header_is_checked_only_on_loopback() -> None:
    assert allowed_hosts("0.0.0.0") is None
    assert "127.0.0.5" in (allowed_hosts("127.0.0.5") or ())


def test_terms_api_counts_terms_by_language_and_time(client: Client) -> None:
    answer = client.get("/api/v1/terms", {"lang": "en", "n": 5}).json()
    assert (len(answer["terms"]), {term["language"] for term in answer["terms"]}) == (5, {"en"})
    assert answer["pages"] == answer["languages"]["en"] > 3
    host = client.get("/api/v1/search", {"q": "spider", "n": 1}).json()["hits"][0]["host"]
    of_site = [
        client.get("/api/v1/terms", {"site": site}).json()["pages"]
        for site in (host, f"https://{host}/")
    ]
    assert of_site[0] == of_site[1] > 0
    assert client.get("/api/v1/terms", {"site": "[::1"}).status_code == 422
    assert client.get("/api/v1/terms", {"since": "2100-01-01"}).json()["terms"] == []
    assert client.get("/api/v1/terms", {"since": "soon"}).status_code == 422
