"""The settings of a call: lycosa.toml, overrides, and options for one collection."""

from __future__ import annotations

import errno
import os
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any

from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection, Config
from lycosa.core.errors import ConfigError, UsageError
from lycosa.store.storage.storage import open_storage
from lycosa.url.normalise import typed_url

CONFIGURATION = "lycosa.toml"
SCOPES = ("host", "domain", "prefix", "any")
STRATEGIES = ("breadth-first", "depth-first", "server-first", "best-first")


def read_config(
    root: str | None,
    overrides: Sequence[str] = (),
    collection: str = "",
    bad: MutableMapping[str, str] | None = None,
) -> Config:
    """Return the configuration of a workspace, with overrides.

    It is read from lycosa.toml, if that exists; overrides have the form `section.key=value`. A
    `collection` that is missing in the file has default settings. With `bad`, invalid collections
    are omitted, and `bad` gets their problems.

    Raises:
        ConfigError: a setting is invalid.
    """
    path = os.path.join(root or "", CONFIGURATION)
    text = read_settings(path) if root else ""
    if not text:
        path = "settings"
    if collection and not any(
        entry.name == collection for entry in parse_config(text, path).collection
    ):
        text = f'{text}\n[[collection]]\nname = "{collection}"\n'
    return parse_config(text, path, tuple(overrides), bad)


def read_settings(path: str) -> str:
    """Return the text of lycosa.toml, "" if there is none.

    Raises ConfigError, with the line, if it is not UTF-8; and OSError.
    """
    if "://" not in path and not Path(path).is_file():
        return ""
    try:
        return _decode(read_file(path), path)
    except FileNotFoundError:
        return ""


def read_file(path: str) -> bytes:
    """Return the content of a local file, or of a file at a URL such as `s3://…/seeds/en.txt`.

    Raises OSError; StorageError if remote storage failed.
    """
    folder, name = os.path.split(path)
    if "://" not in folder:
        return Path(path).read_bytes()
    content = open_storage(folder).read(name)
    if content is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return content


def _decode(content: bytes, path: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not valid UTF-8; save the file as UTF-8") from None


def called_collection(
    config: Config,
    name: str,
    *,
    depth: int | None = None,
    delay: int | None = None,
    scope: str = "",
    strategy: str = "",
    seeds: Sequence[str] = (),
) -> Collection:
    """Return the named collection with a call's options.

    `seeds`: those of its seed file; `delay`: in ms.

    Raises:
        UsageError: an option is wrong.
    """
    base = next(entry for entry in config.collection if entry.name == name)
    settings: dict[str, Any] = {}
    if seeds:
        settings["seeds"] = (*base.seeds, *map(typed_url, seeds))
    if depth is not None:
        settings["depth"] = depth
    if scope:
        if scope not in SCOPES:
            raise UsageError(f"--scope {scope!r}: choose {', '.join(SCOPES[:-1])} or {SCOPES[-1]}")
        settings["scope"] = scope
    if strategy:
        if strategy not in STRATEGIES:
            raise UsageError(f"--strategy {strategy!r}: choose {', '.join(STRATEGIES)}")
        settings["strategy"] = strategy
    if delay is not None:
        settings["delay"] = delay
        if delay == 0:
            settings["courtesy_factor"] = 0.0
    return base.model_copy(update=settings)
