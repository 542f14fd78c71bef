"""The `lycosa` command: one module a command, imported here; what a command needs is imported when
it runs.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

import typer

from lycosa.cli import (
    add,
    changes,
    check,
    collection,
    crawl,
    demo,
    exclude,
    explain,
    export,
    fetch,
    find,
    hunt,
    import_,
    index,
    init,
    links,
    merge,
    parse,
    rank,
    reparse,
    robots,
    run,
    search,
    serve,
    site,
    sql,
    status,
    terms,
    token,
    translate,
    uptime,
    validate,
    versions,
    watch,
)
from lycosa.cli.examples import PlainHelpCommand, add_to_group, epilog
from lycosa.core.errors import LycosaError
from lycosa.core.version import VERSION
from lycosa.processes.terminal import escape_output


def _new_app() -> typer.Typer:
    return typer.Typer(
        name="lycosa",
        help="A web crawler, web archive and multilingual search engine.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


app = _new_app()
COMMANDS: dict[str, Callable[..., None]] = {
    "crawl": crawl.command,
    "run": run.command,
    "add": add.command,
    "search": search.command,
    "hunt": hunt.command,
    "status": status.command,
    "explain": explain.command,
    "serve": serve.command,
    "fetch": fetch.command,
    "parse": parse.command,
    "robots": robots.command,
    "site": site.command,
    "links": links.command,
    "changes": changes.command,
    "versions": versions.command,
    "validate": validate.command,
    "sql": sql.command,
    "find": find.command,
    "terms": terms.command,
    "index": index.command,
    "reparse": reparse.command,
    "import": import_.command,
    "exclude": exclude.command,
    "merge": merge.command,
    "rank": rank.command,
    "check": check.command,
    "init": init.command,
    "demo": demo.command,
}
_OPTIONS_WITH_A_VALUE = frozenset({"-w", "--workspace", "--set"})  # those of `_main`
for _name, _function in COMMANDS.items():
    app.command(_name, cls=PlainHelpCommand, epilog=epilog(_name))(_function)
for _name, _group in {
    "export": export.app,
    "collection": collection.app,
    "translate": translate.app,
    "token": token.app,
    "uptime": uptime.app,
    "watch": watch.app,
}.items():
    add_to_group(_group, _name)
    app.add_typer(_group, name=_name)


def _version(asked: bool) -> None:
    if asked:
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
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    context.obj = (tuple(workspaces), tuple(overrides))


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return the program with only the called command where possible: building all of them takes
    0.05 s.
    """
    words = iter(arguments)
    for word in words:
        if word in _OPTIONS_WITH_A_VALUE:
            next(words, "")
        elif word in COMMANDS:
            only = _new_app()
            only.callback()(_main)
            only.command(word, cls=PlainHelpCommand, epilog=epilog(word))(COMMANDS[word])
            return only
        else:
            break  # help, a group of commands, something wrong: all have to be known
    if entry_points(group="lycosa"):  # without plug-ins, loading the hooks is a fifth of the help
        from lycosa.hooks.plugins import add_plugin_commands

        add_plugin_commands(app)
    return app


def _refuse_bytes(argument: str) -> int:
    print(
        f"lycosa: the argument {argument!r} is not valid UTF-8 and not an existing file",
        file=sys.stderr,
    )
    return 2


def main() -> None:
    """The entry point: errors that Lycosa raises on purpose become one message and an exit code (1
    failed, 2 wrong call).
    """
    # Imports make half a million objects and no cycles: collecting among them is a tenth of a
    # start. What runs long asks for less.
    gc.set_threshold(700_000, 20, 100)
    # At its end Python looks through all objects for cycles again, which is in vain and was a
    # quarter of `lycosa status`.
    atexit.register(gc.freeze)
    # Polars' allocator reads this when it is loaded: one arena, and freed memory goes back after a
    # tenth of a second. 60 MB less.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0")
    # numpy's threads start at import, spin idly and have nothing to do here: .06 s
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Pydantic looks for plugins in the metadata of every package that is installed, and we have
    # none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    escape_output()
    for argument in sys.argv[1:]:
        if any("\ud800" <= character <= "\udfff" for character in argument) and not os.path.exists(
            argument
        ):
            sys.exit(_refuse_bytes(argument))
    try:
        program = app_for(sys.argv[1:])
    except LycosaError as error:
        print(f"lycosa: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if [command.name for command in program.registered_commands] == ["crawl"]:
        # As `OneThread` has it for the children of `lycosa run`. Who asks a question gets all
        # cores.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        program()
    except LycosaError as error:
        print(f"lycosa: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`lycosa search … | head`): that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        from lycosa.core.system_errors import refusal

        if not (said := refusal(error)):
            raise
        print(f"lycosa: {said}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
