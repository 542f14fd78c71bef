"""`versions`: list the archived captures of a page, show the text of one, compare two."""

from __future__ import annotations

from lycosa.captures.captures import Capture, capture_at, iso, parse_at, written_at
from lycosa.captures.content import Versions
from lycosa.commands.feature_models import VersionComparison
from lycosa.commands.page_models import VersionContent, VersionInfo, VersionList, VersionMarkdown
from lycosa.commands.search_models import cached_path
from lycosa.core.errors import UsageError
from lycosa.page.html.markdown import MarkdownMode


def list_versions(
    archive: Versions,
    url: str,
    *,
    count: int | None = None,
    before: str = "",
    changed: bool = False,
) -> VersionList:
    """Return the newest versions of a page, before a time; `changed`: those with a changed text.

    Raises:
        NoVersion: nothing is archived of it.
        UsageError: `before` is not a time.
    """
    captures = archive.history.captures(url)
    limit = parse_at(before) if before else None
    versions = [
        version_info(number, each)
        for number, each in enumerate(captures, 1)
        if (limit is None or each.at < limit) and (each.changed or not changed)
    ]
    return VersionList(captures[0].url, len(captures), versions[:count])


def version_content(archive: Versions, url: str, at: str = "") -> VersionContent:
    """Return the text of a version, by default of the newest. `at`: as of `compare_versions`."""
    captures = archive.history.captures(url)
    capture = _select(captures, at)
    texts = archive.texts(captures, capture)
    version = version_info(captures.index(capture) + 1, capture)
    return VersionContent(capture.url, version, texts.title, texts.main_text, texts.text)


def version_markdown(
    archive: Versions, url: str, at: str = "", mode: MarkdownMode = MarkdownMode.MAIN
) -> VersionMarkdown:
    """Return a version as Markdown, by default the newest. `at`: as of `compare_versions`."""
    captures = archive.history.captures(url)
    capture = _select(captures, at)
    texts = archive.texts(captures, capture, mode)
    version = version_info(captures.index(capture) + 1, capture)
    return VersionMarkdown(capture.url, version, texts.title, mode, texts.markdown or "")


def compare_versions(archive: Versions, url: str, one: str, other: str = "") -> VersionComparison:
    """Compare two versions: numbers of the list, or times such as 2026-11-21T10:15.

    Without a second version, compare with the newest.

    Raises:
        UsageError: there is no such version.
        NoVersion: a version cannot be read.
    """
    captures = archive.history.captures(url)
    chosen = [_select(captures, each) for each in (one, other)]
    before, after = sorted(chosen, key=lambda each: each.at)
    compared = archive.compare(captures, before, after)
    return VersionComparison(
        captures[0].url,
        version_info(captures.index(before) + 1, before),
        version_info(captures.index(after) + 1, after),
        compared.titles,
        compared.of,
        compared.difference,
    )


def _select(captures: list[Capture], name: str) -> Capture:
    if not name:
        return capture_at(captures, None)
    if name.isdecimal() and len(name) < 6:
        if not 1 <= int(name) <= len(captures):
            raise UsageError(f"there is no version {name}: there are {len(captures):,}")
        return captures[int(name) - 1]
    return capture_at(captures, parse_at(name))


def version_info(number: int, capture: Capture) -> VersionInfo:
    """Return a capture as the model that is printed and served."""
    return VersionInfo(
        number=number,
        at=written_at(capture.at),
        fetched_at=iso(capture.at),
        status=capture.status,
        content_type=capture.content_type,
        size=capture.size,
        digest=capture.digest,
        changed=capture.changed,
        original=None if capture.original is None else iso(capture.original),
        redirect_to=capture.redirect_to,
        truncated=capture.truncated,
        error=capture.error,
        cached=cached_path(capture.url, at=written_at(capture.at)),
        collections=capture.collections,
        record_id=capture.record_id,
        warc_file=capture.warc_file,
        warc_offset=capture.warc_offset,
        warc_length=capture.warc_length,
    )
