"""Help of commands: their layout, and the examples at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "crawl": (
        "crawl https://example.org/ --max-pages 500",
        "crawl --strategy server-first --max-time 10m",
    ),
    "run": ("-w news run --serve", "run --collection news --metrics-port 9100"),
    "add": ("add https://example.org/new.html", 'add https://example.org/ --find "annual report"'),
    "search": (
        'search "event loop" -n 20',
        'search --across "hard disk"',
        'search --passages "how do moths see light?"',
    ),
    "hunt": ('hunt "how do I read CSV files?" --seed https://docs.python.org/3/ --time 2m',),
    "status": ("status --hosts 20", "status --by language --csv"),
    "explain": ("explain https://example.org/some/page",),
    "serve": ("serve --port 8080", "serve -w news -w law"),
    "mcp": ("mcp", "mcp --allow-fetch --allow-crawl --max-pages 100", "mcp --http --port 8010"),
    "fetch": (
        "fetch https://example.org/",
        "fetch --body https://example.org/ > page.html",
        "fetch --markdown https://example.org/ > page.md",
    ),
    "parse": (
        "parse https://example.org/",
        "parse page.html --url https://example.org/page.html",
        "parse https://example.org/product/1 --fields",
    ),
    "robots": ("robots https://example.org/private/",),
    "site": ("site example.org", "site example.org --svg site.svg --csv reports/"),
    "links": ("links --broken --site example.org", "links --to https://example.org/page.html"),
    "changes": ("changes --since 7d", "changes --since 2026-11-01 --site example.org"),
    "versions": (
        "versions https://example.org/page",
        "versions https://example.org/page --diff 1 2",
    ),
    "validate": ("validate https://example.org/", "validate page.html --all"),
    "sql": ('sql "SELECT language, COUNT(*) AS n FROM pages GROUP BY language"',),
    "find": ('find "exact words"', 'find "exact words" --site example.org --crawl'),
    "terms": ("terms --lang en -n 30", "terms --rising --period 7d"),
    "index": ("index", "index --rebuild"),
    "reparse": ("reparse --since 2026-11-01", "reparse --fields --collection shop"),
    "import": (
        "import crawl.warc.gz --collection archive",
        "import pages/ --base https://example.org/",
    ),
    "exclude": (
        "exclude domain:example.org",
        "exclude --purge prefix:https://example.org/private/",
    ),
    "compact": ("compact", "compact --full"),
    "rank": ("rank",),
    "check": ("check --deep", "check --repair"),
    "init": ("-w news init", "init --template news27"),
    "demo": ("demo --no-serve", "demo --url https://example.org/ --pages 100"),
    "export": ("export xml out/ --lang de", "export mirror example.org out/"),
    "export xml": ("export xml out/ --lang de",),
    "export jsonl": ("export jsonl out/ --since 2026-11-01",),
    "export parquet": ("export parquet out/ --collection news",),
    "export text": ("export text out/ --lang de",),
    "export warc": ("export warc out/ --site www.example.org",),
    "export wacz": ("export wacz site.wacz --site www.example.org",),
    "export chunks": ("export chunks chunks/ --format parquet --max-tokens 300",),
    "export markdown": ("export markdown out/ --site docs.example.org",),
    "export llms": ("export llms docs.example.org out/",),
    "export items": ("export items products.csv --schema product",),
    "export mirror": ("export mirror www.example.org out/",),
    "export bulk": (
        "export bulk --to opensearch --url http://localhost:9200 --index pages",
        "export bulk --to jsonl --out pages.jsonl",
    ),
    "collection": ("collection list", "collection pause news"),
    "collection list": ("collection list",),
    "collection copy": ("collection copy news other-workspace/",),
    "collection pause": ("collection pause news",),
    "collection resume": ("collection resume news",),
    "collection purge": ("collection purge news",),
    "translate": ("translate add eng-deu.tsv --from en --to de", "translate lookup house --to de"),
    "translate add": ("translate add eng-deu.tsv --from en --to de",),
    "translate learn": ("translate learn text.en text.de --from en --to de",),
    "translate list": ("translate list",),
    "translate remove": ("translate remove eng-deu",),
    "translate lookup": ("translate lookup house --to de",),
    "token": ("token add alice", "token list"),
    "token add": ("token add alice",),
    "token list": ("token list",),
    "token remove": ("token remove alice",),
    "monitor": ('monitor add https://example.org/ --expect "Welcome"', "monitor www.example.org"),
    "monitor show": ("monitor show", "monitor www.example.org"),
    "monitor add": ('monitor add https://example.org/ --every 60s --expect "Welcome"',),
    "monitor remove": ("monitor remove https://example.org/",),
    "monitor list": ("monitor list",),
    "monitor run": ("monitor run",),
    "watch": ('watch add "our name"', "watch matches"),
    "watch add": (
        'watch add "our name" --ignore case,accents',
        'watch add "our name" --notify "webhook https://hooks.example/x"',
    ),
    "watch list": ("watch list",),
    "watch remove": ('watch remove "our name"',),
    "watch matches": ("watch matches", 'watch matches "our name" --since 7d'),
}
"""Command, or group and command -> its examples, without the name of the program."""


def epilog(name: str) -> str:
    r"""Return the examples of a command or group, for the end of its help.

    The first line `\b` prevents the rewrapping of the others.
    """
    return "\n".join(["\b", "Examples:", *(f"  lycosa {line}" for line in EXAMPLES[name])])


class HelpCommand(TyperCommand):
    """A command with a help that lists arguments without their Python types."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections Arguments and Options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            records = [
                (record[0].partition(" <")[0], record[1])
                for parameter in self.get_params(ctx)
                if parameter.param_type_name == kind
                and (record := parameter.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
