"""`lycosa fetch`: one URL as a crawl fetches it; writes nothing to disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lycosa.cli.options import Configured, MarkdownModeOption
from lycosa.cli.output import Output, data_stream, note
from lycosa.core.units import number_of

if TYPE_CHECKING:
    from lycosa.commands.page_models import FetchHop


def command(
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
    if markdown:
        page = configured.open().fetch(url, mode=mode)
        return Output(page, lambda: print(page.markdown, end=""))
    hops, content = configured.open().urls.hops(url)

    def show() -> None:
        if body and not hops[-1].refused:
            data_stream().write(content)
        else:
            for hop in hops:
                _print(hop)

    return Output(hops, show, failed=bool(hops[-1].refused or hops[-1].error))


def _print(hop: FetchHop) -> None:
    if hop.refused:
        note(f"{hop.url}: not fetched: {hop.refused}")
        return
    print(hop.request.replace("\r\n", "\n"), end="")
    print(hop.response.replace("\r\n", "\n"), end="")
    outcome = f"{hop.error} ({hop.error_text})" if hop.error else number_of(hop.body_bytes, "byte")
    note(
        f"{outcome} from {hop.ip or 'no address'} by {hop.protocol or '?'} in "
        f"{hop.duration_ms} ms\n"
    )
