"""`lycosa parse`: what is understood of a page; writes nothing to disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.input import is_file, read_input
from lycosa.cli.options import Configured, values_of
from lycosa.cli.output import Output, table
from lycosa.core.errors import WorkError
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.core.records import Page


def command(
    configured: Configured,
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
) -> Output:
    """Parse a page and show title, language, main text and links.

    Stores nothing.
    """
    from lycosa.url.normalise import typed_url

    workspace = configured.open()
    if is_file(source) or "://" not in typed_url(source):
        page = workspace.urls.parse(read_input(source), url, content_type, name=source)
    else:
        try:
            page = workspace.urls.parse(source)
        except WorkError as error:
            if "://" in source or Path(source).exists():
                raise
            raise WorkError(f"{error}; there is no file {source}") from None
    links = [link._asdict() for link in page.links]
    alternates = [alternate._asdict() for alternate in page.alternates]
    document = {**values_of(page), "links": links, "alternates": alternates}
    return Output(document, lambda: _print(page))


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
    ]
    print(f"{table(rows)}\n\n{page.main_text}\n")
    for link in page.links:
        print(f"{link.kind:<10} {link.target}  {link.anchor}")
