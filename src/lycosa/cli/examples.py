"""Examples at the end of each command's help."""

from __future__ import annotations

from collections.abc import Mapping

import typer

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "crawl": ("crawl https://example.org/ --max-pages 500", "crawl --strategy server-first --max-time 10m"),
    "run": ("-w news run --serve", "run --collection news --metrics-port 9100"),
    "add": ("add https://example.org/new.html", 'add https://example.org/ --find "annual report"'),
    "search": ('search "event loop" -n 20', 'search --across "hard disk"'),
    "hunt": ('hunt "how do I read CSV files?" --seed https://docs.python.org/3/ --time 2m',),
    "status": ("status --hosts 20", "status --by language --csv"),
    "explain": ("explain https://example.org/some/page",),
    "serve": ("serve --port 8080", "serve -w news -w law"),
    "fetch": ("fetch https://example.org/", "fetch --body https://example.org/ > page.html"),
    "parse": ("parse https://example.org/", "parse page.html --url https://example.org/page.html"),
    "robots": ("robots https://example.org/private/",),
    "site": ("site example.org", "site example.org --svg site.svg --csv reports/"),
    "links": ("links --broken --site example.org", "links --to https://example.org/page.html"),
    "changes": ("changes --since 7d", "changes --since 2026-11-01 --site example.org"),
    "versions": ("versions https://example.org/page", "versions https://example.org/page --diff 1 2"),
    "validate": ("validate https://example.org/", "validate page.html --all"),
    "sql": ('sql "SELECT language, COUNT(*) AS n FROM pages GROUP BY language"',),
    "find": ('find "exact words"', 'find "exact words" --site example.org --crawl'),
    "terms": ("terms --lang en -n 30", "terms --rising --period 7d"),
    "index": ("index", "index --rebuild"),
    "reparse": ("reparse --since 2026-11-01",),
    "import": ("import crawl.warc.gz --collection archive", "import pages/ --base https://example.org/"),
    "exclude": ("exclude domain:example.org", "exclude --purge prefix:https://example.org/private/"),
    "merge": ("merge", "merge --whole"),
    "rank": ("rank",),
    "check": ("check --deep", "check --repair"),
    "init": ("-w news init", "init --template news27"),
    "demo": ("demo --no-serve", "demo --url https://example.org/ --pages 100"),
    "export": ("export xml out/ --lang de", "export wacz site.wacz --site example.org", "export mirror example.org out/"),
    "collection": ("collection list", "collection pause news"),
    "translate": ("translate add freedict-eng-deu.index", "translate lookup house --into de"),
    "token": ("token add alice", "token list"),
    "uptime": ('uptime add https://example.org/ --every 60s --expect "Welcome"', "uptime example.org"),
    "watch": ('watch add "our name" --notify "webhook https://hooks.example/x"', "watch matches"),
}


def epilog(name: str) -> str:
    """Return the examples of a command or group as the end of its help; lines are kept as they are."""
    return "\n".join(["\b", "Examples:", *(f"  lycosa {line}" for line in EXAMPLES[name])])


def add_to_group(group: typer.Typer, name: str) -> None:
    """Give a group of commands, and each command in it, the examples of the group that concern it."""
    group.info.epilog = epilog(name)
    for command in group.registered_commands:
        word = command.name or getattr(command.callback, "__name__", "")
        lines = [line for line in EXAMPLES[name] if line.startswith(f"{name} {word} ") or line == f"{name} {word}"]
        if lines:
            command.epilog = "\n".join(["\b", "Examples:", *(f"  lycosa {line}" for line in lines)])
