"""What the commands share: the workspace and settings options, and how they print."""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Annotated, Any

import typer

from lycosa.cli.output import json_text

DEFAULT_WORKSPACE = "lycosa-data"

WorkspaceOption = Annotated[
    str,
    typer.Option(
        "-w", "--workspace", metavar="DIR", help="Workspace directory (default ./lycosa-data)."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray",
        help="Execution engine: processes on this machine, or a Ray cluster.",
    ),
]
AddressOption = Annotated[
    str,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Address of the Ray cluster. Without it, a cluster on this machine is started.",
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Number of workers (default: local 1, ray one per CPU).",
    ),
]
CollectionOption = Annotated[
    str, typer.Option("--collection", metavar="NAME", help="Only this collection.")
]
SiteOption = Annotated[
    str, typer.Option("--site", metavar="SITE", help="Only this site: a host, host:port or URL.")
]
QuietOption = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print no progress and no summary.")
]


def _language(text: str) -> str:
    from lycosa.text.identify import require_language

    return require_language(text)


LanguageOption = Annotated[
    str, typer.Option("--lang", metavar="XX", parser=_language, help="Only pages in this language.")
]


def date_ms(text: str) -> int:
    """`2026-11-21` or a full ISO date (UTC unless it has an offset) as milliseconds; 0 for "".

    Raises:
        UsageError: it is no date.
    """
    from datetime import UTC, datetime

    from lycosa.core.errors import UsageError

    if not text:
        return 0
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a date: write 2026-11-21 or 2026-11-21T10:00:00"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


SinceOption = Annotated[
    int,
    typer.Option(
        "--since",
        metavar="DATE",
        parser=date_ms,
        show_default=False,
        help="Only pages fetched since this date, for example 2026-11-21 (default: all).",
    ),
]


def workspace_root(context: typer.Context, given: str) -> str:
    """The workspace named before or after the command's name, else the default. Raises UsageError
    for several.
    """
    roots = workspace_roots(context, [given] if given else [])
    if len(roots) > 1:
        from lycosa.core.errors import UsageError

        raise UsageError(
            f"more than one workspace is given ({', '.join(roots)}); only `search` "
            "and `serve` accept several"
        )
    return roots[0]


def workspace_roots(context: typer.Context, given: Sequence[str] | None) -> list[str]:
    """The workspaces named after the command's name, else those before it, else the default."""
    before = context.obj[0] if context.obj else ()
    return list(given or before) or [DEFAULT_WORKSPACE]


def load_config(
    context: typer.Context,
    root: str | None,
    overrides: list[str] | None,
    collection: str = "",
    bad: MutableMapping[str, str] | None = None,
) -> Any:
    """The configuration of a workspace (lycosa.toml, if there is one) with `--set` applied.

    A `collection` that is not in the file is added with default settings. With `bad`, an invalid
    collection is left out and its error is recorded there.

    Raises:
        ConfigError: a setting is wrong.
    """
    from lycosa.crawl.session.workspace_config import read_config

    before = context.obj[1] if context.obj else ()
    return read_config(root, (*before, *(overrides or ())), collection, bad)


def require_workspace(root: str) -> None:
    """Raises WorkspaceError, with what to do, if there is no workspace."""
    from lycosa.store.workspace import Workspace

    Workspace.open(root)


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    print(json_text(document, indent=2))


def note(message: str) -> None:
    """A line for people, on stderr."""
    print(message, file=sys.stderr)


def is_file(source: str) -> bool:
    """Whether an argument that may be a URL names an existing file, or standard input (`-`)."""
    from pathlib import Path

    return source == "-" or ("://" not in source and Path(source).exists())


def read_input(source: str) -> bytes:
    """A file's bytes, or those of standard input (`-`).

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    from pathlib import Path

    from lycosa.core.errors import UsageError

    if source == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{source} cannot be read: {error.strerror}; give a file or a URL"
        ) from None


def with_scheme(text: str) -> str:
    """A seed as people type it: without a scheme it is https if the server speaks TLS there, else
    http.
    """
    from lycosa.url.normalise import typed_url

    if typed_url(text) == text:
        return text
    from lycosa.fetch.handle import speaks_tls

    return f"https://{text}" if speaks_tls(text) else f"http://{text}"


def table(rows: list[tuple[str, str]], indent: str = "  ") -> str:
    """Two aligned columns."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{indent}{name.ljust(width)}  {value}" for name, value in rows)


def counts(numbers: Mapping[Any, int], most: int = 8) -> str:
    """`{"en": 30, "zh": 2}` -> `en 30, zh 2`, largest first."""
    ordered = sorted(
        ((name, number) for name, number in numbers.items() if number), key=lambda item: -item[1]
    )
    shown = ", ".join(f"{name or 'unknown'} {number:,}" for name, number in ordered[:most])
    return shown + (f" and {len(ordered) - most} more" if len(ordered) > most else "")


def open_engine(name: str, address: str, config: Any) -> Any:
    """The engine that was asked for: close it in any case.

    Raises:
        UsageError: the name is unknown, or the engine's packages are not installed.
        WorkError: the cluster cannot be joined.
    """
    from lycosa.core.errors import UsageError

    if name == "local":
        if address:
            raise UsageError("--address names a Ray cluster: add --engine ray")
        from lycosa.cluster.engines.local import LocalEngine

        return LocalEngine()
    if name != "ray":
        raise UsageError(f"--engine {name!r}: choose local or ray")
    try:
        from lycosa.cluster.engines.ray import RayEngine
    except ImportError as error:
        raise UsageError(
            f"--engine ray needs packages that are not installed ({error.name}): pip "
            "install 'lycosa[ray]'"
        ) from None
    return RayEngine(address, install=config.cluster.install)


def is_shared(engine: str, workers: int | None) -> bool:
    """Whether several workers are wanted: one on this machine needs no coordinator. Raises
    UsageError for an unknown engine.
    """
    from lycosa.core.errors import UsageError

    if engine not in ("", "local", "ray"):
        raise UsageError(f"--engine {engine!r}: choose local or ray")
    return engine == "ray" or (workers or 1) > 1
