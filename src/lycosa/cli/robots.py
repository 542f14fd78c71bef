"""`lycosa robots URL`: what an origin's robots.txt says; writes nothing to disk."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, SetOption, load_config, print_json, table
from lycosa.core.units import format_duration


def command(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="A URL: may the robot fetch it?")],
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Fetch the robots.txt of a URL's site and say whether the URL may be fetched, and by which line. Exit code 1 if not."""
    from lycosa.app.oneoff import OneOff
    from lycosa.fetch.robots import Robots, product_token, robots_url, robots_verdict

    settings = load_config(context, None, overrides).fetch
    with OneOff(settings, url) as one:
        entry = one.robots(one.url)
        target = one.url
    verdict = robots_verdict(entry.status, "" if entry.status else "no answer")
    if verdict == "parse":
        robots = Robots(entry.body, settings.user_agent, entry.origin)
    else:
        robots = Robots.everything() if verdict == "allow_all" else Robots.nothing()
    allowed = robots.allowed(target)
    delay = robots.crawl_delay_ms()
    facts = {
        "url": target,
        "robots": robots_url(entry.origin),
        "status": entry.status,
        "verdict": verdict,
        "token": product_token(settings.user_agent),
        "allowed": allowed,
        "line": robots.line(target),
        "crawl_delay_ms": delay,
        "sitemaps": robots.sitemaps(),
    }
    if json_output:
        print_json({**facts, "body": entry.body})
    else:
        means = {"allow_all": "there is none: all is allowed", "deny_all": "it cannot be had: nothing is allowed"}.get(verdict, "")
        rows = [
            ("robots.txt", f"{facts['robots']} (HTTP {entry.status or 'no answer'}) {means}"),
            (
                target,
                f"{'allowed' if allowed else 'not allowed'} for {facts['token']}" + (f", by {facts['line']}" if facts["line"] else ""),
            ),
            ("Crawl-delay", format_duration(delay) if delay is not None else "none"),
            *(("Sitemap", address) for address in robots.sitemaps()),
        ]
        print(table(rows, ""))
    if not allowed:
        raise typer.Exit(1)
