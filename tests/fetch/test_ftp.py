"""FTP and gopher with real servers, and abuse by URLs and servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.core.errors import FetchError
from lycosa.core.records import Request
from lycosa.fetch.client import CurlFetcher
from lycosa.fetch.file_transfer import split_file_url
from lycosa.fetch.guard import AddressGuard
from lycosa.http.decode import parse_head
from lycosa.url.file_types import FTP_LISTING, GOPHER_MENU
from tests.fetch import fetching
from tests.fetch.fetching import fetch, run
from tests.servers.ftp import busy_ftp, false_address_ftp, flooding_ftp, ftp, gopher

LOCAL = "127.0.0.1"


def open_fetcher(allowed: list[tuple[str, int]], **changes: object) -> CurlFetcher:
    return fetching.open_fetcher(allowed, other_schemes=True, **changes)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "pub" / "a b").mkdir(parents=True)
    (tmp_path / "pub" / "read me.txt").write_text("Words in a file.\n")
    (tmp_path / "pub" / "large.bin").write_bytes(bytes(300_000))
    return tmp_path


def test_files_and_directory_listings(files: Path) -> None:
    with ftp(files) as port, open_fetcher([(LOCAL, port)], max_body="100000B") as fetcher:
        start = f"ftp://{LOCAL}:{port}/"
        requests = [
            Request(start + path)
            for path in ("", "pub/", "pub/read%20me.txt", "pub/large.bin", "none.txt", "none/")
        ]
        actual = {
            exchange.url.removeprefix(start): exchange for exchange in run(fetcher, requests, 1)
        }
        text = actual["pub/read%20me.txt"]
        assert (text.status, text.error, text.body, text.protocol, text.ip) == (
            200,
            "",
            b"Words in a file.\n",
            "ftp",
            LOCAL,
        )
        assert parse_head(text.response_head).get("content-type") == "text/plain"
        assert not text.request_head
        for path, name in (("", b"pub"), ("pub/", b"read me.txt")):
            assert parse_head(actual[path].response_head).get("content-type") == FTP_LISTING
            assert name in actual[path].body
        assert (len(actual["pub/large.bin"].body), actual["pub/large.bin"].truncated) == (
            100_000,
            "length",
        )
        assert [actual[path].status for path in ("none.txt", "none/")] == [404, 404]
        assert fetch(fetcher, start).status == 200  # the connection is usable after failures


def test_body_of_an_unwanted_type_is_not_read(files: Path) -> None:
    with ftp(files) as port, open_fetcher([(LOCAL, port)]) as fetcher:
        (exchange,) = run(
            fetcher,
            [
                Request(
                    f"ftp://{LOCAL}:{port}/pub/large.bin",
                    unwanted=lambda kind: kind == "application/octet-stream",
                )
            ],
        )
        assert (exchange.status, exchange.truncated, exchange.body) == (200, "unspecified", b"")


@pytest.mark.proves("access-redirects")
def test_data_connection_uses_the_address_of_the_control_connection() -> None:
    """The address in the server's PASV response is ignored; it could be an internal host."""
    for address in ("10.0.0.1", "127.0.0.1", "192.0.2.1"):
        with false_address_ftp(address) as port, open_fetcher([(LOCAL, port)]) as fetcher:
            exchange = fetch(fetcher, f"ftp://{LOCAL}:{port}/a.txt")
            assert (exchange.body, exchange.ip, exchange.error) == (b"the text", LOCAL, "")


@pytest.mark.proves("access-redirects")
def test_private_addresses_are_refused(files: Path) -> None:
    with ftp(files) as port, open_fetcher([]) as fetcher:
        for url in (f"ftp://{LOCAL}:{port}/", f"gopher://{LOCAL}/"):
            exchange = fetch(fetcher, url)
            assert (exchange.error, exchange.status, exchange.body) == (
                FetchError.ADDRESS_REFUSED,
                0,
                b"",
            )


def test_closed_ftp_port_is_connect_refused() -> None:
    with open_fetcher([(LOCAL, 1999)]) as fetcher:
        assert fetch(fetcher, f"ftp://{LOCAL}:1999/").error == FetchError.CONNECT_REFUSED


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("ftp://h.example/", True),
        ("ftp://h.example:2121/a/b", True),
        ("gopher://h.example/1/menu", True),
        ("gopher://h.example:70/1/menu", True),
        ("gopher://h.example:25/_HELO", False),  # a mail server
        ("gopher://h.example:6379/_FLUSHALL", False),  # Redis
        ("gopher://h.example:7070/", False),  # not permitted in the configuration
        ("gopher://h.example/_a%0d%0aDATA", False),  # commands of another protocol
        ("ftp://h.example/a%0ADELE%20b", False),
        ("ftp://h.example:22/", False),
        ("ftp://h.example:99999/", False),
        ("ftp://me@h.example/", False),
        ("file:///etc/passwd", False),
        ("dict://h.example/", False),
    ],
)
def test_permitted_file_urls(url: str, allowed: bool) -> None:
    assert (split_file_url(url, AddressGuard()) is not None) == allowed
    if not allowed:
        with open_fetcher([]) as fetcher:
            is_file_url = url.startswith(("ftp:", "gopher:"))
            assert fetch(fetcher, url).error == (
                FetchError.ADDRESS_REFUSED if is_file_url else FetchError.UNSUPPORTED_SCHEME
            )


def test_ftp_needs_other_schemes(files: Path) -> None:
    with ftp(files) as port, fetching.open_fetcher([(LOCAL, port)]) as fetcher:
        assert fetch(fetcher, f"ftp://{LOCAL}:{port}/").error == FetchError.UNSUPPORTED_SCHEME


def test_gopher_menu_and_text() -> None:
    menu = b"0About moths\t/about.txt\tlocalhost\t70\r\n1More\t/more\tlocalhost\t70\r\n.\r\n"
    with (
        gopher({"": menu, "/about.txt": b"Moths fly at night.\r\n.\r\n"}) as (port, selectors),
        open_fetcher([(LOCAL, port)]) as fetcher,
    ):
        home = fetch(fetcher, f"gopher://{LOCAL}:{port}/")
        text = fetch(fetcher, f"gopher://{LOCAL}:{port}/0/about.txt")
        assert (home.status, home.body, home.protocol) == (200, menu, "gopher")
        assert parse_head(home.response_head).get("content-type") == GOPHER_MENU
        assert text.body.startswith(b"Moths fly")
        assert parse_head(text.response_head).get("content-type") == "text/plain"
        assert selectors == ["", "/about.txt"]


def test_directory_without_trailing_slash_redirects(files: Path) -> None:
    with ftp(files) as port, open_fetcher([(LOCAL, port)]) as fetcher:
        start = f"ftp://{LOCAL}:{port}/"
        folder = fetch(fetcher, f"{start}pub/a%20b")
        assert (folder.status, parse_head(folder.response_head).get("location")) == (
            301,
            "./a%20b/",
        )
        assert fetch(fetcher, f"{start}pub/none.txt").status == 404


def test_unmodified_file_is_not_sent_again(files: Path) -> None:
    with ftp(files) as port, open_fetcher([(LOCAL, port)]) as fetcher:
        url = f"ftp://{LOCAL}:{port}/pub/read%20me.txt"
        changed_at = parse_head(fetch(fetcher, url).response_head).get("last-modified")
        assert changed_at
        (again,) = run(fetcher, [Request(url, headers=(("If-Modified-Since", changed_at),))], 1)
        assert (again.status, again.body, again.error) == (304, b"", "")
        (later,) = run(
            fetcher,
            [Request(url, headers=(("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"),))],
            1,
        )
        assert (later.status, later.body) == (200, b"Words in a file.\n")


def test_gopher_error_item_is_a_404() -> None:
    with (
        gopher({"/three": b"3 is a number\tand no error\r\n"}) as (port, _),
        open_fetcher([(LOCAL, port)]) as fetcher,
    ):
        assert fetch(fetcher, f"gopher://{LOCAL}:{port}/0/none.txt").status == 404
        assert fetch(fetcher, f"gopher://{LOCAL}:{port}/0/three").status == 200


@pytest.mark.proves("limits-size")
def test_endless_ftp_greeting_is_an_error() -> None:
    with flooding_ftp() as port, open_fetcher([(LOCAL, port)]) as fetcher:
        exchange = fetch(fetcher, f"ftp://{LOCAL}:{port}/")
        assert (exchange.error, exchange.response_head) == (FetchError.HEADERS_TOO_LARGE, b"")


@pytest.mark.parametrize("after", ["", "the log-in"])
def test_busy_ftp_server_is_a_503(after: str) -> None:
    with busy_ftp(after) as port, open_fetcher([(LOCAL, port)]) as fetcher:
        exchange = fetch(fetcher, f"ftp://{LOCAL}:{port}/a.txt")
        assert (exchange.status, exchange.error) == (503, "")
