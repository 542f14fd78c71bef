"""Groups of options that commands share.

A group is a frozen dataclass with fields that are `Annotated` with `typer.Option`. `expand`
replaces a parameter of that type by the options, so `def command(where: InWorkspace)` has `-w` and
`--set`.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from lycosa.cli.output import Output
from lycosa.core.dataclass import dataclass
from lycosa.core.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from lycosa.api import Workspace

DEFAULT_WORKSPACE = "lycosa-data"


def expand(function: Callable[..., Output | None]) -> Callable[..., None]:
    """Return a command with its option groups expanded into its signature.

    A command that returns `Output` has `--json`.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
        else:
            only = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=only))
    has_output = hints["return"] is Output and OutputOptions not in groups.values()
    if has_output:
        parameters += _parameters(JsonOutput)
    for kind in reversed(groups.values()):  # the help lists shared options last
        parameters += _parameters(kind)

    @wraps(function)
    def command(**values: Any) -> None:
        arguments = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        printing = {"as_json": values.pop("json_output", False)} if has_output else {}
        for group in arguments.values():
            if isinstance(group, OutputOptions):
                printing = {"as_json": group.json_output, "quiet": group.quiet}
        output = function(**values, **arguments)
        if output is not None:
            output.print(**{"quiet": False, **printing})
            if output.failed:
                raise typer.Exit(1)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameters(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _language(text: str) -> str:
    from lycosa.text.identify import require_language

    return require_language(text)


def date_ms(text: str) -> int:
    """Return a date (UTC unless it has an offset) in milliseconds; 0 for "".

    Raises:
        UsageError: it is not a date.
    """
    from datetime import UTC, datetime

    if not text:
        return 0
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a date: write 2026-11-21 or 2026-11-21T10:00:00"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def start_of(text: str) -> datetime:
    """Return a start: a date, or an age such as 7d; 1970 for a greater age.

    Raises:
        UsageError: it is neither.
    """
    from datetime import UTC, datetime

    from lycosa.core.units import parse_duration_ms

    if "-" in text:
        return datetime.fromtimestamp(date_ms(text) / 1000, UTC)
    try:
        age_ms = parse_duration_ms(text)
    except UsageError:
        raise UsageError(f"{text!r} is neither a date nor an age: write 2026-11-21 or 7d") from None
    return datetime.fromtimestamp(max(time.time() - age_ms / 1000, 0), UTC)


def completion(name: str) -> Callable[[typer.Context, str], list[str]]:
    """Return the completion of a parameter from the workspace of the command line."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from lycosa.api import Workspace
        from lycosa.core.errors import LycosaError

        before = context.find_root().params.get("workspaces") or [DEFAULT_WORKSPACE]
        root = context.params.get("workspace") or before[0]
        try:
            names = Workspace(root).statistics.names(name)
        except LycosaError:
            return []
        return [each for each in names if each.startswith(incomplete)]

    return complete


def date_option(name: str, help: str) -> Any:
    """Return an option with a date; its value is in milliseconds, 0 without one."""
    return typer.Option(name, metavar="DATE", parser=date_ms, show_default=False, help=help)


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
QuietOption = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print no progress and no summary.")
]
MarkdownModeOption = Annotated[
    Literal["main", "full", "citations"],
    typer.Option(
        "--mode",
        help="`main`: main text; `full`: complete page; `citations`: main text, links as numbered "
        "references.",
    ),
]
CollectionOption = Annotated[
    str,
    typer.Option(
        "--collection",
        metavar="NAME",
        help="Only this collection.",
        autocompletion=completion("collections"),
    ),
]
IntoOption = Annotated[
    str,
    typer.Option(
        "--collection",
        metavar="NAME",
        help="Collection to store the pages in.",
        autocompletion=completion("collections"),
    ),
]
SiteOption = Annotated[
    str,
    typer.Option(
        "--site",
        metavar="SITE",
        help="Only this site: a host, host:port or URL.",
        autocompletion=completion("hosts"),
    ),
]
LanguageOption = Annotated[
    str,
    typer.Option(
        "--lang",
        metavar="XX",
        parser=_language,
        help="Only pages in this language.",
        autocompletion=completion("languages"),
    ),
]
SinceOption = Annotated[
    int,
    date_option(
        "--since", "Only pages fetched since this date, for example 2026-11-21 (default: all)."
    ),
]
PeriodOption = Annotated[
    str,
    typer.Option(
        "--since",
        metavar="DATE|TIME",
        help="Start: a date, for example 2026-11-21, or an age, for example 7d.",
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="WHAT", help="Ignore case, accents, width; comma-separated."),
]
NotifyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--notify",
        metavar="TARGET",
        help="Notification target: 'webhook URL', 'command PROGRAM …' or 'file PATH'; repeatable.",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Print all entries.")]
DelayOption = Annotated[
    str,
    typer.Option("--delay", metavar="TIME", help="Minimum delay between two requests to a host."),
]
NoIndexOption = Annotated[bool, typer.Option("--no-index", help="Do not update the search index.")]
PeersOption = Annotated[
    list[str] | None,
    typer.Option("--peer", metavar="URL", help="Also search another Lycosa server; repeatable."),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port", metavar="N", min=0, max=65535, help="Port (default 8000); 0 selects a free port."
    ),
]
ListenOption = Annotated[
    str, typer.Option("--host", metavar="HOST", help="Address to listen on (default 127.0.0.1).")
]


@dataclass(frozen=True)
class Configured:
    """`--set`: settings that apply to one call."""

    context: typer.Context
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable."),
    ] = None

    @property
    def settings(self) -> list[str]:
        """The overrides before and after the name of the command."""
        before = self.context.obj[1] if self.context.obj else ()
        return [*before, *(self.overrides or ())]

    @property
    def root(self) -> str:
        """The workspace; "": none, and so no configuration file."""
        return ""

    def open(self) -> Workspace:
        from lycosa.api import Workspace

        return Workspace(self.root, self.settings)


@dataclass(frozen=True)
class InWorkspace(Configured):
    """`-w` and `--set`."""

    workspace: Annotated[
        str,
        typer.Option(
            "-w", "--workspace", metavar="DIR", help="Workspace directory (default ./lycosa-data)."
        ),
    ] = ""

    @property
    def root(self) -> str:
        """The workspace named before or after the command, else the default.

        Raises:
            UsageError: there are several.
        """
        roots = workspace_roots(self.context, [self.workspace] if self.workspace else [])
        if len(roots) > 1:
            raise UsageError(
                f"more than one workspace is given ({', '.join(roots)}); only `search` and `serve` "
                "accept several"
            )
        return roots[0]


@dataclass(frozen=True)
class InWorkspaces(Configured):
    """`-w`, repeatable, and `--set`."""

    workspaces: Annotated[
        list[str] | None,
        typer.Option(
            "-w",
            "--workspace",
            metavar="DIR",
            help="Workspace directory (default ./lycosa-data); further ones are searched too.",
        ),
    ] = None

    @property
    def roots(self) -> list[str]:
        """All named workspaces, or the default."""
        return workspace_roots(self.context, self.workspaces or [])

    @property
    def root(self) -> str:
        return self.roots[0]


@dataclass(frozen=True)
class EngineOptions:
    """`--engine` and `--address`."""

    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="local|ray",
            help="Execution engine: processes on this machine, or a Ray cluster.",
        ),
    ] = ""
    address: Annotated[
        str,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Address of the Ray cluster. Without it, a cluster on this machine is started.",
        ),
    ] = ""


@dataclass(frozen=True)
class EngineWorkers(EngineOptions):
    """`--engine`, `--address` and `--workers`."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            metavar="N",
            help="Number of workers (default: local 1, ray one per CPU).",
        ),
    ] = None


@dataclass(frozen=True)
class JsonOutput:
    """`--json`."""

    json_output: JsonOption = False


@dataclass(frozen=True)
class OutputOptions(JsonOutput):
    """`--json` and `--quiet`."""

    quiet: QuietOption = False


@dataclass(frozen=True)
class PageFilter:
    """`--lang`, `--collection`, `--site` and `--since`."""

    language: LanguageOption = ""
    collection: CollectionOption = ""
    site: SiteOption = ""
    since: SinceOption = 0


def workspace_roots(context: typer.Context, roots: Sequence[str]) -> list[str]:
    """Return the workspaces named after the command, else those before it, else the default."""
    before = context.obj[0] if context.obj else ()
    return list(roots or before) or [DEFAULT_WORKSPACE]


def values_of(options: Any) -> Mapping[str, Any]:
    """Return the fields of an option group as keyword arguments."""
    return {field.name: getattr(options, field.name) for field in fields(options)}


def is_file(source: str) -> bool:
    """Return whether an argument names an existing file, or standard input (`-`)."""
    return source == "-" or ("://" not in source and Path(source).exists())


def read_input(source: str) -> bytes:
    """Return the content of a file, or of standard input (`-`).

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{source} cannot be read: {error.strerror}; give a file or a URL"
        ) from None


SeedsOption = Annotated[
    str,
    typer.Option(
        "--seeds", metavar="FILE", help="File with URLs, one per line; -: standard input."
    ),
]


def typed_seeds(urls: Sequence[str] | None, file: str) -> list[str]:
    """Return the URLs of the arguments and of `--seeds`.

    Raises:
        UsageError: the file cannot be read, or has no URL.
    """
    seeds = [*(urls or ())]
    if file:
        from lycosa.crawl.session.planning import parse_seeds, read_seeds  # loads Polars

        stdin = file == "-"
        read = parse_seeds(read_input(file), "standard input") if stdin else read_seeds(file)
        if not read:
            raise UsageError(f"--seeds {file}: there is no URL in it")
        seeds += read
    return seeds
