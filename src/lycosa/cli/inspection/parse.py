"""`lycosa parse`: what is understood of a page; writes nothing to disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lycosa.cli.input import is_file, read_input
from lycosa.cli.options import CollectionOption, Configured, InWorkspace, values_of
from lycosa.cli.output import Output, json_text, table
from lycosa.core.errors import UsageError, WorkError
from lycosa.core.units import format_time, number_of

if TYPE_CHECKING:
    from lycosa.core.records import Item, Metadata, Page


def command(
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
    workspace = where.open() if fields else Configured.open(where)
    fields_of = collection if fields else None
    if is_file(source) or "://" not in typed_url(source):
        content = read_input(source)
        page = workspace.urls.parse(content, url, content_type, name=source, fields_of=fields_of)
    else:
        try:
            page = workspace.urls.parse(source, fields_of=fields_of)
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
    """Return what the page declares besides what `pages` has, without empty values."""
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
