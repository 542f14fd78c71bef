"""`lycosa fetch URL`: look at one exchange; writes nothing to disk."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, SetOption, load_config, note, print_json
from lycosa.cli.output import data_stream
from lycosa.core.units import number_of


def command(
    context: typer.Context,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="URL to fetch; private addresses are allowed.")
    ],
    body: Annotated[
        bool,
        typer.Option(
            "--body", help="Print the decoded body of the last response instead of the headers."
        ),
    ] = False,
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Fetch one URL as a crawl does and show requests and responses.

    Obeys robots.txt and the address guard, follows redirects, stores nothing.
    """
    from lycosa.crawl.session.single_fetch import OneOff
    from lycosa.http.decode import decode_body

    settings = load_config(context, None, overrides).fetch
    with OneOff(settings, url) as one:
        hops = list(one.hops())
    last = hops[-1].exchange
    failed = last is None or bool(last.error)
    if json_output:
        print_json(
            [
                {"url": hop.url, "refused": hop.refused}
                if hop.exchange is None
                else {
                    "url": hop.url,
                    "status": hop.exchange.status,
                    "error": hop.exchange.error,
                    "error_text": hop.exchange.error_text,
                    "ip": hop.exchange.ip,
                    "protocol": hop.exchange.protocol,
                    "duration_ms": hop.exchange.duration_ms,
                    "first_byte_ms": hop.exchange.first_byte_ms,
                    "truncated": hop.exchange.truncated,
                    "body_bytes": len(hop.exchange.body),
                    "request": hop.exchange.request_head.decode("latin-1"),
                    "response": hop.exchange.response_head.decode("latin-1"),
                }
                for hop in hops
            ]
        )
    elif body and last is not None:
        data_stream().write(decode_body(last, settings.max_decoded).payload)
    else:
        for hop in hops:
            if hop.exchange is None:
                note(f"{hop.url}: not fetched: {hop.refused}")
                continue
            print(hop.exchange.request_head.decode("latin-1").replace("\r\n", "\n"), end="")
            print(hop.exchange.response_head.decode("latin-1").replace("\r\n", "\n"), end="")
            outcome = (
                f"{hop.exchange.error} ({hop.exchange.error_text})"
                if hop.exchange.error
                else f"{number_of(len(hop.exchange.body), 'byte')}"
            )
            note(
                f"{outcome} from {hop.exchange.ip or 'no address'} by "
                f"{hop.exchange.protocol or '?'} in {hop.exchange.duration_ms} ms\n"
            )
    if failed:
        raise typer.Exit(1)
