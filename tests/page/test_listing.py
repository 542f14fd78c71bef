"""Listings and menus as servers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.page.directory_listing import ListingEntry, ftp_listing, gopher_menu


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "-rw-r--r--   1 ftp      ftp          1234 Nov 21 10:00 read me.txt",
            ("read me.txt", "./read%20me.txt"),
        ),
        ("drwxr-xr-x    5 1000     1000         4096 Mar 02  2019 pub", ("pub", "./pub/")),
        (
            "lrwxrwxrwx   1 root     root           11 Jan  1  2020 latest -> v2/file.txt",
            ("latest", "./latest"),
        ),
        ("-rw-r--r--+  1 0 512 2026-11-21 10:00 access-list", ("access-list", "./access-list")),
        ("-rw-r--r--   1 owner     10 Nov 21 10:00 no group", ("no group", "./no%20group")),
        ("-rw-r--r--   1 a b 10 21 Nov 10:00 day first", ("day first", "./day%20first")),
        (
            "-rw-r--r--   1 a b 10 Nov 21 10:00  begins with a space",
            (" begins with a space", "./%20begins%20with%20a%20space"),
        ),
        (
            "11-21-26  10:00AM       <DIR>          Program Files",
            ("Program Files", "./Program%20Files/"),
        ),
        ("11-21-2026  10:00               45 a.txt", ("a.txt", "./a.txt")),
        ("type=file;size=10;modify=20261121100000; b.txt", ("b.txt", "./b.txt")),
        ("type=dir;perm=el; c", ("c", "./c/")),
        (
            "-rw-r--r--   1 a b 10 Nov 21 10:00 ключ?#.txt",
            ("ключ?#.txt", "./%D0%BA%D0%BB%D1%8E%D1%87%3F%23.txt"),
        ),
        ("Welcome to this server", ("Welcome to this server", "")),
    ],
)
def test_ftp_lines(line: str, expected: tuple[str, str]) -> None:
    assert ftp_listing(line.encode()) == [ListingEntry(*expected)]


def test_what_is_no_entry() -> None:
    dots = (
        b"total 8\r\ndrwxr-xr-x 2 a b 1 Nov 21 10:00 .\r\ndrwxr-xr-x 2 a b 1 Nov 21 10:00 "
        b"..\r\ntype=cdir; /pub\r\n\r\n"
    )
    assert ftp_listing(dots) == []
    assert ftp_listing(b"-rw-r--r-- 1 a b 1 Nov 21 10:00 \xe9t\xe9") == [
        ListingEntry("�t�", "./%E9t%E9")
    ]


def test_gopher_menus() -> None:
    menu = (
        "iWelcome\tfake\t(NULL)\t0\r\n0About\t/about "
        "me.txt\tHost.example\t70\r\n1More\t\thost.example\t7070\r\n"
        "hThe web\tURL:https://example.org/\thost.example\t70\r\n8Telnet\t\thost.example\t23\r\n3Error\t\terror.host\t1\r\n"
        "0Bad port\t/x\th.example\tx\r\n0Bad host\t/x\th "
        "e\t70\r\n0Short\r\n.\r\n0After\t/x\th.example\t70\r\n"
    )
    assert gopher_menu(menu.encode()) == [
        ListingEntry("Welcome", ""),
        ListingEntry("About", "gopher://host.example/0/about%20me.txt"),
        ListingEntry("More", "gopher://host.example:7070/"),
        ListingEntry("The web", "https://example.org/"),
        ListingEntry("Telnet", ""),
        ListingEntry("Error", ""),
        ListingEntry("Bad port", ""),
        ListingEntry("Bad host", ""),
        ListingEntry("Short", ""),
    ]


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    for entries in (ftp_listing(data), gopher_menu(data)):
        for entry in entries:
            entry.text.encode()
            assert "\n" not in entry.reference
            assert "\r" not in entry.reference
