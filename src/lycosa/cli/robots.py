"""`lycosa robots URL`: what an origin's robots.txt says; writes nothing to disk."""

from __future__ import annotations

from typing import Annotated

import typer

from lycosa.cli.common import JsonOption, SetOption, load_config, print_json, table
from lycosa.core.units import format_duration


def command(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="URL to check.")],
    overrides: SetOption = None,
    json_output: JsonOption = False,
) -> None:
    """Show whether robots.txt allows a URL, and which line decides.

    The exit code is 1 if the URL is disallowed.
    """
    from lycosa.crawl.session.single_fetch import OneOff
    from lycosa.fetch.robots_txt import Robots, product_token, robots_url, robots_verdict

    settings = load_config(context, None, overrides).fetch
    with OneOff(settings, url) as one:
        entry = one.robots(one.url)
        target, problem = one.url, one.robots_problem
    verdict = robots_verdict(entry.status, "" if entry.status else "no response")
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
        answer = f"HTTP {entry.status}" if entry.status else problem or "no response"
        means = {
            "allow_all": ": there is no robots.txt, so every URL is allowed",
            "deny_all": ": robots.txt is unreachable, so no URL is allowed",
        }.get(verdict, "")
        rows = [
            ("robots.txt", f"{facts['robots']} ({answer}){means}"),
            (
                target,
                f"{'allowed' if allowed else 'not allowed'} for {facts['token']}"
                + (f", by {facts['line']}" if facts["line"] else ""),
            ),
            ("Crawl-delay", format_duration(delay) if delay is not None else "none"),
            *(("Sitemap", address) for address in robots.sitemaps()),
        ]
        print(table(rows, ""))
    if not allowed:
        raise typer.Exit(1)
