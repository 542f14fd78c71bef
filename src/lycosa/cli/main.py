"""The `lycosa` command. A module of a command is imported when the command is called."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from lycosa.cli.help import HelpCommand, epilog
from lycosa.core.entry_points import plugin_entry_points
from lycosa.core.errors import LycosaError
from lycosa.core.version import VERSION
from lycosa.processes.terminal import STDOUT, discard, escape_output

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Crawl": {
        "crawl": ("crawling.crawl", "Crawl sites, archive them and index them."),
        "run": ("crawling.run", "Crawl the configured collections continuously."),
        "hunt": ("crawling.hunt", "Focused crawl: follow the most relevant links."),
        "add": ("crawling.add", "Submit URLs to a collection."),
        "import": ("crawling.import_", "Import archives into a collection."),
        "collection": ("crawling.collection", "List, pause, resume, copy or purge collections."),
        "init": ("crawling.start:init", "Create a workspace with a commented configuration file."),
        "demo": ("crawling.start:demo", "Crawl, index and search a small bundled web."),
    },
    "Search": {
        "search": ("searching.search", "Search the crawled pages."),
        "find": ("searching.find", "Find a text in stored pages, or in a site crawled for it."),
        "sql": ("searching.sql", "Query the live tables in SQL."),
        "terms": ("searching.terms", "Count words in stored pages."),
        "translate": ("searching.translate", "Manage translation tables for `search --across`."),
        "serve": ("searching.serve", "Serve the web interface and the JSON API."),
        "mcp": ("searching.mcp", "Serve the workspace to language models (MCP)."),
        "token": ("searching.token", "Manage access tokens of the web interface and the API."),
    },
    "Inspect": {
        "status": ("inspection.status", "Show the state of a workspace and its crawl."),
        "explain": (
            "inspection.explain",
            "Show the state of a URL and why it was or was not fetched.",
        ),
        "fetch": ("inspection.single:fetch", "Fetch one URL and show requests and responses."),
        "parse": (
            "inspection.single:parse",
            "Parse a page and show title, language, text and links.",
        ),
        "robots": ("inspection.single:robots", "Show whether robots.txt allows a URL."),
        "versions": ("inspection.versions", "List archived versions of a page, or compare two."),
        "validate": ("inspection.single:validate", "Validate a page against the HTML standard."),
    },
    "Monitor": {
        "monitor": ("monitoring.monitor", "Monitor the availability of URLs."),
        "watch": ("monitoring.watch", "Content alerts: match patterns against every page."),
        "site": ("monitoring.site:site", "Audit a site: broken links, duplicates, orphan pages."),
        "links": ("monitoring.site:links", "List stored links: to a URL, from a URL, or broken."),
        "changes": ("monitoring.site:changes", "List new, removed and changed pages."),
    },
    "Maintain": {
        "index": ("maintenance.upkeep:index", "Update the search index."),
        "rank": ("maintenance.upkeep:rank", "Compute link ranks, duplicates and translations."),
        "compact": ("maintenance.upkeep:compact", "Compact small files and delete obsolete ones."),
        "check": (
            "maintenance.upkeep:check",
            "Verify the log, tables, archive and index; repair them.",
        ),
        "reparse": ("maintenance.upkeep:reparse", "Parse archived pages again."),
        "exclude": ("maintenance.exclude", "Exclude sites permanently from crawling and search."),
        "export": ("maintenance.export", "Export pages: XML, Parquet, Markdown, WARC, WACZ."),
    },
}
"""Panel of the help -> command -> its module in `lycosa.cli`, and its line in the list.

`module:function` where a module has several commands, else its `app` or `command`.
"""

_MODULES = {name: entry[0] for panel in COMMANDS.values() for name, entry in panel.items()}


class _Commands(TyperGroup):
    """The commands of `COMMANDS`, imported on use, and those of plug-ins."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name in sorted(self.commands.keys() & _MODULES.keys()):
            module = getattr(self.commands.pop(name).callback, "__module__", "")
            print(
                f"lycosa: the command {name!r} of the plug-in module {module} is ignored, because "
                "Lycosa has a command of this name: rename it in the plug-in",
                file=sys.stderr,
            )

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_MODULES, *super().list_commands(ctx)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Suggest similar names for an unknown one: typer does so only for imported commands."""
        names = self.list_commands(ctx)
        if args[0] not in names:
            from difflib import get_close_matches

            if similar := get_close_matches(args[0], names):
                suggestions = ", ".join(map(repr, similar))
                ctx.fail(f"No such command {args[0]!r}. Did you mean {suggestions}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _MODULES:
            return super().get_command(ctx, cmd_name)
        if cmd_name == "crawl":
            from lycosa.processes.memory import tune_malloc

            tune_malloc()
            # Read by polars at import. The frames of a crawl are too small for several threads.
            os.environ.setdefault("POLARS_MAX_THREADS", "1")
        return load_command(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section per panel, without importing the commands."""
        for panel, commands in COMMANDS.items():
            with formatter.section(panel):
                formatter.write_dl([(name, help) for name, (_, help) in commands.items()])
        if self.commands:
            with formatter.section("Plug-ins"):
                formatter.write_dl(
                    [(name, each.get_short_help_str()) for name, each in self.commands.items()]
                )


@cache
def load_command(name: str) -> Any:
    """Import a command or a group of commands, and build it."""
    from lycosa.cli.options import expand

    path, _, function = _MODULES[name].partition(":")
    module = import_module(f"lycosa.cli.{path}")
    group: typer.Typer | None = getattr(module, "app", None)
    options: dict[str, Any] = {"context_settings": _CONTEXT, "epilog": epilog(name)}
    if group is not None:
        group_info = group.info
        options |= {
            "cls": group_info.cls,
            "help": group_info.help,
            "no_args_is_help": group_info.no_args_is_help,
        }
    app = typer.Typer(name=name, rich_markup_mode=None, add_completion=False, **options)
    if group is None:
        command = expand(getattr(module, function or "command"))
        app.command(name, cls=HelpCommand, epilog=epilog(name))(command)
        return typer.main.get_command(app)
    for info in group.registered_commands:
        assert info.callback is not None
        word = info.name or info.callback.__name__
        add = app.command(word, cls=HelpCommand, help=info.help, epilog=epilog(f"{name} {word}"))
        add(expand(info.callback))
    return typer.main.get_group(app)


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
app = typer.Typer(
    cls=_Commands,
    name="lycosa",
    help="A web crawler, web archive and multilingual search engine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=_CONTEXT,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"lycosa {VERSION}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    workspaces: list[str] = typer.Option(
        [],
        "-w",
        "--workspace",
        metavar="DIR",
        help="Workspace directory (default ./lycosa-data); repeatable for search and serve.",
    ),
    overrides: list[str] = typer.Option(
        [], "--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable."
    ),
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and exit.",
    ),
) -> None:
    context.obj = (tuple(workspaces), tuple(overrides))


def main() -> None:
    """Run the command line: an expected error is one message and an exit code of 1 or 2."""
    # Imports make many objects and no cycles: collecting among them is a tenth of a start.
    gc.set_threshold(700_000, 20, 100)
    # Searching for cycles at exit takes a quarter of `lycosa status`, without use.
    atexit.register(gc.freeze)
    # Read by Polars' allocator when it is loaded: one arena that returns memory, 60 MB less.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0")
    # numpy's threads start at import, spin and have nothing to do here: 0.06 s.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Pydantic searches the metadata of all installed packages for its plug-ins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    escape_output()
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    for argument in arguments:
        surrogates = any("\ud800" <= character <= "\udfff" for character in argument)
        if surrogates and not os.path.exists(argument):
            return _fail(
                f"the argument {argument!r} is not valid UTF-8 and not an existing file", 2
            )
    try:
        if plugin_entry_points():  # without plug-ins, loading the hooks slows the help down
            from lycosa.hooks.plugins import add_plugin_commands

            add_plugin_commands(app)
        try:
            app()
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # typer exits with 1
                raise end.__context__ from None
            sys.stdout.flush()
            raise
    except LycosaError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output ended (`lycosa search … | head`), which is not an error.
        discard(STDOUT)
    except Exception as error:
        from lycosa.core.system_errors import refusal

        message = refusal(error)
        if not message:
            raise
        return _fail(message, 1)
    return 0


def _fail(message: str, code: int) -> int:
    print(f"lycosa: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
