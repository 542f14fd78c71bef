"""`lycosa parse FILE|URL|HOST`: look at what is understood of a page; writes nothing to disk."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import (
    JsonOption,
    SetOption,
    is_file,
    load_config,
    print_json,
    read_input,
    table,
)
from lycosa.core.errors import WorkError
from lycosa.core.units import number_of


def command(
    context: typer.Context,
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
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Parse a page and show title, language, main text and links.

    Stores nothing.
    """
    from dataclasses import asdict

    from lycosa.crawl.session.single_fetch import OneOff, file_exchange, read_page
    from lycosa.url.normalise import typed_url

    settings = load_config(context, None, overrides).fetch
    if not is_file(source) and "://" in typed_url(source):
        with OneOff(settings, source) as one:
            last = list(one.hops())[-1]
        if last.exchange is None or last.exchange.error:
            raise WorkError(
                f"{last.url}: {last.refused or (last.exchange and last.exchange.error)}"
                + ("" if "://" in source else f"; there is no file {source}")
            )
        page = read_page(last.exchange, settings)
    else:
        page = read_page(
            file_exchange(source, read_input(source), url, content_type), settings, source
        )
    if json_output:
        document = asdict(page)
        document["links"] = [link._asdict() for link in page.links]
        document["alternates"] = [alternate._asdict() for alternate in page.alternates]
        print_json(document)
        return
    print(
        table(
            [
                ("title", page.title),
                ("headline", page.headline),
                ("description", page.description),
                (
                    "language",
                    f"{page.language or 'unknown'} ({page.language_score:.2f})"
                    + "".join(f", {code}" for code in page.other_languages),
                ),
                ("charset", page.charset),
                ("canonical", page.canonical or ""),
                (
                    "robots",
                    ("index" if page.may_index else "noindex")
                    + ", "
                    + ("follow" if page.may_follow else "nofollow"),
                ),
                ("headings", str(len(page.headings))),
                (
                    "text",
                    f"{number_of(len(page.text), 'character')}, {len(page.main_text):,} of "
                    "them main text",
                ),
                (
                    "links",
                    f"{len(page.links):,}"
                    + "".join(
                        f", {number} refused ({reason})" for reason, number in page.refused.items()
                    ),
                ),
                ("faults", ", ".join(page.faults)),
            ],
            "",
        )
    )
    print(f"\n{page.main_text}\n")
    for link in page.links:
        print(f"{link.kind:<10} {link.target}  {link.anchor}")
