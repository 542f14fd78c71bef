"""`lycosa fetch`, `parse`, `robots` and `validate`: one page; writes nothing to disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lycosa.cli.options import (
    AllOption,
    CollectionOption,
    Configured,
    InWorkspace,
    MarkdownModeOption,
    is_file,
    read_input,
    values_of,
)
from lycosa.cli.output import Output, data_stream, json_text, note, table
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import format_duration, format_time, number_of

if TYPE_CHECKING:
    from lycosa.commands.page_models import FetchHop
    from lycosa.core.records import Item, Metadata, Page

_MEANINGS = {
    "allow_all": ": there is no robots.txt, so every URL is allowed",
    "deny_all": ": robots.txt is unreachable, so no URL is allowed",
}
_MAX_ERRORS = 50


def fetch(
    configured: Configured,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="URL to fetch; private addresses are allowed.")
    ],
    body: Annotated[
        bool,
        typer.Option(
            "--body", help="Print the decoded body of the last response instead of the headers."
        ),
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page as Markdown instead of the headers.")
    ] = False,
    mode: MarkdownModeOption = "main",
) -> Output:
    """Fetch one URL as a crawl does and show requests and responses.

    Obeys robots.txt and the address guard, follows redirects, stores nothing.
    """
    if body and markdown:
        raise UsageError("choose --body or --markdown")
    if mode != "main" and not markdown:
        raise UsageError(f"--mode {mode} is for --markdown: add --markdown")
    if markdown:
        page = configured.open().fetch(url, mode=mode)
        return Output(page, lambda: print(page.markdown, end=""))
    hops, content = configured.open().urls.hops(url)

    def show() -> None:
        last = hops[-1]
        if body and not last.refused:
            data_stream().write(content)
            if last.error or last.truncated:
                note(f"{last.url}: {_outcome(last)}")
        else:
            for hop in hops:
                _print_hop(hop)

    return Output(hops, show, failed=bool(hops[-1].refused or hops[-1].error))


def _print_hop(hop: FetchHop) -> None:
    if hop.refused:
        note(f"{hop.url}: not fetched: {hop.refused}")
        return
    print(hop.request.replace("\r\n", "\n"), end="")
    print(hop.response.replace("\r\n", "\n"), end="")
    note(
        f"{_outcome(hop)} from {hop.ip or 'no address'} by {hop.protocol or '?'} in "
        f"{hop.duration_ms} ms\n"
    )


def _outcome(hop: FetchHop) -> str:
    if hop.error:
        return f"{hop.error} ({hop.error_text})"
    return number_of(hop.body_bytes, "byte") + (", truncated" if hop.truncated else "")


def parse(
    where: InWorkspace,
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|URL|HOST", help="File, URL, host, or - for standard input."),
    ],
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Base URL of a file, to resolve its links.")
    ] = "http://localhost/",
    content_type: Annotated[
        str, typer.Option("--content-type", metavar="TYPE", help="Content-Type of a file.")
    ] = "",
    fields: Annotated[
        bool, typer.Option("--fields", help="Show the items that the configured fields extract.")
    ] = False,
    collection: CollectionOption = "",
) -> Output:
    """Parse a page and show title, language, metadata, main text and links.

    Stores nothing. With --fields, the fields in the lycosa.toml of the workspace are tried.
    """
    from lycosa.url.normalise import typed_url

    if collection and not fields:
        raise UsageError("--collection is for --fields: it selects whose fields are tried")
    configured = where if fields else Configured(where.context, where.overrides)
    fields_of = collection if fields else None
    if is_file(source) or "://" not in typed_url(source):
        content = read_input(source)
        page = configured.open().urls.parse(
            content, url, content_type, name=source, fields_of=fields_of
        )
    else:
        try:
            page = configured.open().urls.parse(source, fields_of=fields_of)
        except WorkError as error:
            if "://" in source or Path(source).exists():
                raise
            raise WorkError(f"{error}; there is no file {source}") from None
    if fields:
        return Output([_item(item) for item in page.items], lambda: _print_items(page.items))
    links = [link._asdict() for link in page.links]
    alternates = [alternate._asdict() for alternate in page.alternates]
    declared = {**values_of(page.metadata), "raw": json.loads(page.metadata.raw or "{}")}
    document = {**values_of(page), "metadata": declared, "links": links, "alternates": alternates}
    return Output(document, lambda: _print(page))


def _item(item: Item) -> dict[str, Any]:
    problems = [problem._asdict() for problem in item.problems]
    return {**item._asdict(), "values": json.loads(item.values), "problems": problems}


def _print_items(items: list[Item]) -> None:
    if not items:
        print("no schema applies to this page: its URL matches no url_pattern, or it is not HTML")
    for item in items:
        title = f"{item.schema} of {item.collection}"
        if item.position is None:
            print(f"{title}: its selector selects nothing in this page\n")
            continue
        print(f"{title}, {item.position + 1}{'' if item.valid else ' (not valid)'}")
        shown = {name: json_text(value) for name, value in json.loads(item.values).items()}
        print(table(list(shown.items()), "  "))
        if item.missing:
            print(f"  nothing selected: {', '.join(item.missing)}")
        for each in item.problems:
            selector = f" ({each.selector})" if each.selector else ""
            value = f": {each.value!r}" if each.value else ""
            print(f"  {each.field}{selector}: {each.problem}{value}")
        print()


def _metadata_rows(declared: Metadata) -> list[tuple[str, str]]:
    """Return the non-empty values of the declared metadata, with their labels."""
    dates = {
        name: "" if at is None else format_time(at)
        for name, at in (
            ("published", declared.published_at),
            ("modified", declared.modified_at),
        )
    }
    price = "" if declared.price is None else f"{declared.price:g} {declared.currency}".strip()
    rating = "" if declared.rating is None else f"{declared.rating:g}"
    if rating and declared.best_rating is not None:
        rating += f" of {declared.best_rating:g}"
    if rating and declared.rating_count is not None:
        rating += f" ({number_of(declared.rating_count, 'rating')})"
    rows = {
        "type": declared.type,
        "content title": declared.headline,
        "authors": ", ".join(declared.authors),
        **dates,
        "site": declared.site_name,
        "publisher": declared.publisher,
        "section": declared.section,
        "keywords": ", ".join(declared.keywords),
        "image": declared.image,
        "license": declared.license,
        "price": price,
        "availability": declared.availability,
        "rating": rating,
    }
    return [(name, value) for name, value in rows.items() if value]


def _print(page: Page) -> None:
    languages = "".join(f", {code}" for code in page.other_languages)
    refused = "".join(f", {number} refused ({why})" for why, number in page.refused.items())
    index = "index" if page.may_index else "noindex"
    follow = "follow" if page.may_follow else "nofollow"
    rows = [
        ("title", page.title),
        ("headline", page.headline),
        ("description", page.description),
        ("language", f"{page.language or 'unknown'} ({page.language_score:.2f}){languages}"),
        ("charset", page.charset),
        ("canonical", page.canonical or ""),
        ("robots", f"{index}, {follow}"),
        ("headings", str(len(page.headings))),
        (
            "text",
            f"{number_of(len(page.text), 'character')}, {len(page.main_text):,} of them main text",
        ),
        ("links", f"{len(page.links):,}{refused}"),
        ("faults", ", ".join(page.faults)),
        *_metadata_rows(page.metadata),
    ]
    print(f"{table(rows)}\n\n{page.main_text}\n")
    for link in page.links:
        print(f"{link.kind:<10} {link.target}  {link.anchor}")


def robots(
    configured: Configured,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL to check.")],
) -> Output:
    """Show whether robots.txt allows a URL, and which line decides.

    The exit code is 1 if the URL is disallowed.
    """
    report = configured.open().urls.robots(url)
    outcome = f"HTTP {report.status}" if report.status else report.problem or "no response"
    verdict = f"{'allowed' if report.allowed else 'not allowed'} for {report.token}"
    delay = report.crawl_delay_ms
    rows = [
        ("robots.txt", f"{report.robots} ({outcome}){_MEANINGS.get(report.verdict, '')}"),
        (report.url, verdict + (f", by {report.line}" if report.line else "")),
        ("Crawl-delay", "none" if delay is None else format_duration(delay)),
        *(("Sitemap", address) for address in report.sitemaps),
    ]
    return Output(report, table(rows), failed=not report.allowed)


def validate(
    where: InWorkspace,
    source: Annotated[
        str, typer.Argument(metavar="URL|FILE", help="Archived URL, file, or - for standard input.")
    ],
    every: AllOption = False,
) -> Output:
    """Validate a page against the HTML standard.

    Prints code, line and column of each error. The exit code is 1 if there are errors.
    """
    from collections import Counter

    from lycosa.site.validate import Validated, html_faults, validate_archived

    if is_file(source):
        content = read_input(source)
        checked = Validated(source, None, len(content), html_faults(content))
    else:
        checked = validate_archived(where.root, where.open().config(), source)
    faults = checked.faults
    shown = faults if every else faults[:_MAX_ERRORS]
    lines = [f"{each.line}:{each.column}  {each.code}  {each.message}" for each in shown]
    if len(shown) < len(faults):
        lines.append(f"and {len(faults) - _MAX_ERRORS:,} more; --all prints them")
    common = Counter(each.code for each in faults).most_common(5)
    kinds = ", ".join(f"{code} {count}" for code, count in common)
    fetched = f", fetched {checked.fetched_at:%Y-%m-%d %H:%M} UTC" if checked.fetched_at else ""
    summary = f"{checked.source}{fetched}: {number_of(len(faults), 'error')}"
    summary += f" ({kinds})" if kinds else ""
    return Output(checked, "\n".join(lines), summary, failed=bool(faults))
