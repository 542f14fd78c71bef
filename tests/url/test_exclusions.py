"""The exclusion list, and URLs and media types that are not indexed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.core.errors import ConfigError, UrlError
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.exclusions import (
    CHECK_MS,
    ExclusionFile,
    ExclusionKind,
    ExclusionRule,
    ExclusionRules,
    parse_exclusions,
)
from lycosa.url.file_types import READ_TYPES, TEXT_TYPES, unindexable, unindexable_type
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from tests.servers.sites import require_sites
from tests.url.strategies import absolute
from tests.waiting import ManualClock

DOMAINS = Domains(bundled_suffix_list())


def rule_for(exclusions: ExclusionRules, url: str) -> ExclusionRule | None:
    url = normalise(url)
    host = hostname(url)
    return exclusions.excluded(url, host, DOMAINS.registrable(host))


@pytest.mark.parametrize(
    ("rule", "excluded", "allowed"),
    [
        (
            "host www.example.org",
            ["http://www.example.org/", "https://www.example.org:8443/a?b", "http://www.example.org./"],
            ["http://example.org/", "http://a.www.example.org/", "http://www.example.org.uk/"],
        ),
        ("host BÜCHER.de", ["https://xn--bcher-kva.de/x"], ["https://bucher.de/"]),
        ("host [2001:DB8::1]", ["http://[2001:db8:0:0::1]:81/"], ["http://[2001:db8::2]/"]),
        ("host 192.0.2.7", ["http://192.0.2.7/", "http://0xC0000207/"], ["http://192.0.2.8/"]),
        (
            "domain example.org",
            ["http://example.org/", "http://a.b.example.org/x", "https://EXAMPLE.org./"],
            ["http://anexample.org/", "http://example.org.test/", "http://example.com/"],
        ),
        ("domain news.example.org", ["http://news.example.org/", "http://a.news.example.org/"], ["http://example.org/"]),
        ("domain github.io", ["http://someone.github.io/"], ["http://github.com/"]),
        (
            "prefix https://example.org/private/",
            ["https://example.org/private/", "http://example.org/private/a?b", "https://example.org/x/../private/a", "http://example.org./private/"],
            ["https://example.org/private", "https://example.org/privat/", "https://www.example.org/private/", "https://example.org:8443/private/"],
        ),
        ("prefix http://example.org", ["http://example.org/", "https://example.org/a"], ["http://example.org:81/"]),
        ("prefix http://example.org:81/~a", ["http://example.org:81/%7Eabc"], ["http://example.org/~a"]),
        ("prefix http://example.org/list?sort=", ["http://example.org/list?sort=up"], ["http://example.org/list"]),
    ],
)  # fmt: skip
def test_urls_that_a_rule_excludes(rule: str, excluded: list[str], allowed: list[str]) -> None:
    exclusions = parse_exclusions(rule, "list")
    for url in excluded:
        assert rule_for(exclusions, url) is exclusions.rules[0], url
    for url in allowed:
        assert rule_for(exclusions, url) is None, url


def test_rules_have_their_reason_and_line_number() -> None:
    text = "\ufeff# written by hand\r\n\r\n  HOST a.test#not-a-comment.test  \n"
    with pytest.raises(ConfigError, match="line 3"):
        parse_exclusions(text, "list")
    exclusions = parse_exclusions(
        "\ufeff# by hand\r\n\r\nHost a.test\t# mail of 2026-11-02 # twice\r\nprefix "
        "http://b.test/\n",
        "list",
    )
    assert exclusions.rules == (
        ExclusionRule(ExclusionKind.HOST, "a.test", "mail of 2026-11-02 # twice", 3),
        ExclusionRule(ExclusionKind.PREFIX, "b.test/", "", 4),
    )
    assert (
        str(rule_for(exclusions, "http://a.test/"))
        == "host a.test (line 3: mail of 2026-11-02 # twice)"
    )
    assert str(rule_for(exclusions, "http://b.test/")) == "prefix b.test/ (line 4)"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("hots a.test", "must begin with host, domain or prefix"),
        ("a.test", "must begin with host, domain or prefix"),
        ("host", "needs a host name after it"),
        ("prefix # nothing", "needs a URL after it"),
        ("host a.test b.test", "one host per line"),
        ("domain *.a.test", "write domain a.test"),
        ("domain .a.test", "write domain a.test"),
        ("host https://a.test/", "prefix URL"),
        ("domain a.test/x", "prefix URL"),
        ("host a.test:80", "remove the port"),
        ("host [::1]:80", "remove the port"),
        ("host a b", "one host per line"),
        ("host a..b:c", "not a host name"),
        ("host ::1", "not a host name"),
        ("domain .", "not a host name"),
        ("host www.*.org", "not a host name"),
        ("prefix a.test/x", "prefix https://a.test/x"),
        ("prefix //a.test/x", "prefix https://a.test/x"),
        ("prefix https://a.test/x#y", "remove the #"),
        ("prefix https://a b/", "one prefix per line"),
        ("prefix https:///", "not a valid URL"),
        ("prefix https://a.test:99999/", "not a valid URL"),
    ],
)
def test_invalid_line_is_reported_with_a_correction(line: str, advice: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_exclusions(f"# first\n{line}\nhost fine.test\n", "/etc/lycosa/exclusions")
    assert str(raised.value).startswith("/etc/lycosa/exclusions, line 2: ")
    assert advice in str(raised.value)


def test_up_to_ten_invalid_lines_are_reported() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_exclusions("\n".join(["no"] * 14), "list")
    assert len(str(raised.value).splitlines()) == 11
    assert str(raised.value).endswith("4 more invalid lines")


_PATHS = st.lists(st.sampled_from("ab/?."), max_size=4).map(
    lambda path: "".join(path).replace("..", ".")
)


@given(st.lists(_PATHS, max_size=8), st.lists(_PATHS, min_size=1, max_size=5))
def test_prefix_lookup_equals_a_linear_search(prefixes: list[str], paths: list[str]) -> None:
    rules = [f"prefix https://h{len(path) % 2}.test/{path}" for path in prefixes]
    exclusions = parse_exclusions("\n".join(rules), "list")
    for path in paths:
        url = normalise(f"http://h{len(paths) % 2}.test/{path}")
        expected = any(url.partition("://")[2].startswith(rule.value) for rule in exclusions.rules)
        assert (rule_for(exclusions, url) is not None) == expected


class EditedList:
    """An exclusion file with a manual clock.

    Each edit changes the modification time of the file.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.edits = 0
        self.clock = ManualClock()
        self.write(text)
        self.file = ExclusionFile(path, self.clock)

    def write(self, text: str) -> None:
        self.edits += 1
        self.path.write_text(text, encoding="utf-8")
        os.utime(self.path, ns=(self.edits * 10**9, self.edits * 10**9))

    def values_at_next_check(self) -> set[str]:
        self.clock.advance(CHECK_MS)
        return {rule.value for rule in self.file.current().rules}


@pytest.fixture
def edited(tmp_path: Path) -> EditedList:
    return EditedList(tmp_path / "list", "host a.test\n")


def test_edit_is_applied_when_the_file_is_unchanged_between_checks(tmp_path: Path) -> None:
    edited = EditedList(tmp_path / "list", "host a.test\nhost b.test\n")
    before = edited.file.current()
    assert edited.values_at_next_check() == {"a.test", "b.test"}
    assert edited.file.current() is before
    edited.write("")  # an editor truncates the file before it writes
    assert edited.values_at_next_check() == {"a.test", "b.test"}
    edited.write("host a.test\nhost b.test\nhost c.test\n")
    assert edited.values_at_next_check() == {"a.test", "b.test"}
    assert edited.values_at_next_check() == {"a.test", "b.test", "c.test"}
    assert len(before) == 2  # snapshots are immutable


def test_file_is_checked_at_intervals(edited: EditedList) -> None:
    edited.write("host b.test\n")
    for _ in range(5):
        assert [rule.value for rule in edited.file.current().rules] == ["a.test"]
    edited.values_at_next_check()
    # the second check is due after the same interval
    assert [rule.value for rule in edited.file.current().rules] == ["a.test"]
    assert edited.values_at_next_check() == {"b.test"}


def test_invalid_edit_keeps_the_last_valid_list_and_is_reported(edited: EditedList) -> None:
    edited.write("host a.test\nhots b.test\n")
    edited.values_at_next_check()
    assert edited.values_at_next_check() == {"a.test"}
    assert f"{edited.path}, line 2" in edited.file.problem
    edited.write("host b.test\n")
    edited.values_at_next_check()
    assert edited.values_at_next_check() == {"b.test"}
    assert edited.file.problem == ""


def test_deleted_file_keeps_its_rules_and_is_reported(edited: EditedList) -> None:
    edited.path.unlink()
    edited.values_at_next_check()
    assert edited.values_at_next_check() == {"a.test"}
    assert "cannot be read" in edited.file.problem
    edited.write("host a.test\n")
    edited.values_at_next_check()
    assert edited.values_at_next_check() == {"a.test"}
    assert edited.file.problem == ""


def test_reverted_edit_clears_the_problem(edited: EditedList) -> None:
    signature = edited.path.stat()
    edited.write("hots b.test\n")
    edited.values_at_next_check()
    edited.values_at_next_check()
    assert edited.file.problem
    edited.path.write_text("host a.test\n", encoding="utf-8")
    os.utime(edited.path, ns=(signature.st_atime_ns, signature.st_mtime_ns))
    assert edited.values_at_next_check() == {"a.test"}
    assert edited.file.problem == ""


@pytest.mark.parametrize("content", [None, b"hots a.test\n", b"host \xff.test\n"])
def test_unreadable_list_is_refused_at_start(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "list"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=str(path)):
        ExclusionFile(path, ManualClock())


def test_empty_list_excludes_nothing() -> None:
    assert rule_for(ExclusionRules(), "http://a.test/") is None
    assert len(parse_exclusions("# nothing yet\n\n", "list")) == 0


REFUSED = [
    ("http://h/a.zip", "archive"),
    ("http://h/a.tar.gz", "archive"),
    ("http://h/a/b.JPG", "image"),
    ("http://h/a.jpeg?w=200&h=100", "image"),
    ("http://h/a.png;v=1", "image"),
    ("http://h/a.mp3", "audio"),
    ("http://h/a.webm", "video"),
    ("http://h/a.woff2?v=4", "font"),
    ("http://h/setup.exe", "executable"),
    ("http://h/debian.iso", "disk_image"),
    ("http://h/main.css?12", "style"),
    ("http://h/app.js", "script"),
    ("http://h/a.sqlite", "data"),
]
ADMITTED = [
    "http://h",
    "http://h/",
    "http://h.zip/",
    "http://h.zip",
    "http://h/a",
    "http://h/a.html",
    "http://h/a.png/",
    "http://h/a.zip/download",
    "http://h/v1.2",
    "http://h/show.php?file=a.zip",
    "http://h/?a.jpg",
    "http://h/wiki/File:A.jpg",
    "http://h/wiki/Node.js",
    "http://h/tagged/three.js",
    "http://h/o/r/blob/main/logo.svg",
    "http://h/index.php/a.jpg",
    "http://h/cgi-bin/show.exe",
    "http://h/page.dll?a=1",
    "http://h/whois/example.com",
    "http://h/site/notion.so",
    "http://h/a.txt",
    "http://h/feed.xml",
    "http://h/a.pdf",
    "http://h/.zip.html",
    "http://h/" + "a." + "z" * 50,
]


@pytest.mark.parametrize(("url", "reason"), REFUSED)
def test_unindexable_urls(url: str, reason: str) -> None:
    assert unindexable(url) == reason


@pytest.mark.parametrize("url", ADMITTED)
def test_indexable_urls(url: str) -> None:
    assert unindexable(url) == ""


def test_documents_are_optional() -> None:
    for name in ("a.pdf", "a.DOCX", "a.epub"):
        assert unindexable(f"http://h/{name}") == ""
        assert unindexable(f"http://h/{name}", documents=False) == "document"
    assert unindexable("http://h/a.zip", documents=False) == "archive"


@pytest.mark.parametrize(
    ("content_type", "patterns", "reason"),
    [
        ("text/html; charset=utf-8", READ_TYPES, ""),
        ("TEXT/HTML", READ_TYPES, ""),
        ("application/rss+xml", READ_TYPES, ""),
        ("application/xhtml+xml", (), ""),
        ("", READ_TYPES, ""),
        ("application/octet-stream", READ_TYPES, ""),
        ("nonsense", READ_TYPES, ""),
        ("image/png", READ_TYPES, "image"),
        ("image/svg+xml", READ_TYPES, "image"),
        ("video/mp4", READ_TYPES, "video"),
        ("application/zip", READ_TYPES, "archive"),
        ("application/pdf", READ_TYPES, ""),
        ("application/pdf", TEXT_TYPES, "document"),
        ("application/vnd.oasis.opendocument.text", READ_TYPES, ""),
        ("application/pdf", ("text/*", "application/pdf"), ""),
        ("text/css", READ_TYPES, "style"),
        ("application/vnd.api+json", READ_TYPES, "media_type"),
        ("text/html", ("application/pdf",), "media_type"),
        ("image/svg+xml", ("image/*",), ""),
    ],
)
def test_media_types(content_type: str, patterns: tuple[str, ...], reason: str) -> None:
    assert unindexable_type(content_type, patterns) == reason


@given(absolute)
def test_unindexable_never_raises(url: str) -> None:
    try:
        unindexable(normalise(url), documents=False)
    except UrlError:
        return


def test_no_page_of_real_sites_is_unindexable() -> None:
    pages = [
        normalise(f"http://{site.name}/{(Path(folder) / name).relative_to(site.root)}")
        for site in require_sites()
        for folder, _, files in os.walk(site.root, followlinks=True)
        for name in ("", *files)
        if name.endswith((".html", ".txt", ".xml")) or not name
    ]
    assert len(pages) > 5_000
    assert [url for url in pages if unindexable(url)] == []
