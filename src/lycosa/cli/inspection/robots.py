"""`lycosa robots`: whether robots.txt allows a URL; writes nothing to disk."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.options import Configured
from lycosa.cli.output import Output, table
from lycosa.core.units import format_duration

_MEANINGS = {
    "allow_all": ": there is no robots.txt, so every URL is allowed",
    "deny_all": ": robots.txt is unreachable, so no URL is allowed",
}


def command(
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
