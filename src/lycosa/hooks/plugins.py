"""Load plug-ins and call their hooks.

Features of Lycosa attach to a crawl in the same way. They are named in `_FEATURES`; a feature
without its package is skipped. Other plug-ins are installed packages with an entry point in the
group `lycosa`. `LYCOSA_PLUGINS=off` disables those.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module, util
from typing import Any, Protocol

import pluggy

from lycosa.core.entry_points import plugin_entry_points
from lycosa.core.errors import UsageError
from lycosa.hooks import specs

_FEATURES = (
    "lycosa.fields.plugin",
    "lycosa.matching.plugin",
    "lycosa.vectors.plugin",
    "lycosa.watch.delivery",
)
_VARIABLE = "LYCOSA_PLUGINS"
_INFINITY = float("inf")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e]*")


def _check_admission(value: Any) -> None:
    if value not in (True, False):
        raise TypeError(f"{value!r} is not True, False or None")


def _check_tables(tables: Mapping[str, Any]) -> None:
    for name, table in tables.items():
        if not hasattr(table, "collect_schema"):
            raise TypeError(f"{name!r}: {table!r} is not a frame of Polars")


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not _FIELD_NAME.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
            raise ValueError(f"{name!r}: {value!r} is not a header field")


def _check_columns(columns: Mapping[str, type]) -> None:
    for name, type_ in columns.items():
        if not name.isidentifier() or type_ not in (str, int, float, bool):
            raise ValueError(f"{name!r}: {type_!r} is not a column of type str, int, float or bool")


def _check_values(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not isinstance(value, str | int | float | None) or value in (_INFINITY, -_INFINITY):
            raise ValueError(f"{name!r}: {value!r} is not a string, a finite number or a Boolean")
        if value != value:
            raise ValueError(f"{name!r} is not a number")
        if isinstance(value, str):
            value.encode()


def _check_text(text: str) -> None:
    text.encode()


def _check_sections(sections: Mapping[str, Sequence[str]]) -> None:
    for title, lines in sections.items():
        if isinstance(lines, str):
            raise TypeError(f"{title!r}: {lines!r} is not a list of lines")
        "\n".join((title, *lines)).encode()


_CHECKS: dict[str, Callable[[Any], None]] = {
    "admit_url": _check_admission,
    "sql_tables": _check_tables,
    "request_headers": _check_headers,
    "page_columns": _check_columns,
    "page_parsed": _check_values,
    "index_text": _check_text,
    "report_rendered": _check_sections,
}
"""The check of a hook's result: raises if the caller cannot use what a plug-in returned."""


class Plugins:
    """Registered plug-ins. Hooks are called in the order of registration."""

    def __init__(self, plugins: Iterable[tuple[str, object]] = ()) -> None:
        """
        Raises:
            UsageError: a plug-in has no hook, a hook that does not exist, or an argument that does
                not.
        """
        self._manager = pluggy.PluginManager(specs.PROJECT)
        self._manager.add_hookspecs(specs)
        for name, plugin in plugins:
            try:
                self._register(name, plugin)
            except (pluggy.PluginValidationError, ValueError) as error:
                raise UsageError(f"plug-in {name}: {error}; see docs/how-to/plugins.md") from None

    def _register(self, name: str, plugin: object) -> None:
        if self._manager.has_plugin(name):
            raise ValueError("another plug-in has this name")
        if self._manager.is_registered(plugin):
            raise ValueError(f"it is also the plug-in {self._manager.get_name(plugin)}")
        if isinstance(plugin, type):
            raise ValueError("it is a class: name a module or an object")
        self._manager.register(plugin, name)
        self._manager.check_pending()
        hooks = {caller.name for caller in self._manager.get_hookcallers(plugin) or ()}
        for attribute in vars(self._manager.hook).keys() & {*dir(plugin)} - hooks:
            raise ValueError(
                f"{attribute} is not a function with the decorator `hook` of lycosa.hooks (a "
                "function of functools.cache cannot be a hook, but a hook may call it)"
            )
        if not hooks:
            raise ValueError("it has no function with the decorator `hook` of lycosa.hooks")

    def has(self, name: str) -> bool:
        """Return whether a plug-in implements a hook. Cheap enough for hot paths."""
        return bool(getattr(self._manager.hook, name).get_hookimpls())

    def call(self, name: str, **arguments: Any) -> list[Any]:
        """Return the results of all implementations of a hook, without None.

        See `named_results`.
        """
        return [result for _, result in self.named_results(name, **arguments)]

    def named_results(self, name: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Return the results of a hook that are not None, each with the name of the plug-in.

        A plug-in that raises, or returns a wrong value, is reported on standard error and not
        called again.
        """
        check = _CHECKS.get(name)
        results = []
        for implementation in getattr(self._manager.hook, name).get_hookimpls():
            try:
                result = implementation.function(
                    *(arguments[argument] for argument in implementation.argnames)
                )
                if result is not None and check is not None:
                    check(result)
            except (Exception, SystemExit) as error:  # noqa: BLE001  third-party code
                self._switch_off(implementation, name, error)
            else:
                if result is not None:
                    results.append((implementation.plugin_name, result))
        return results

    def merged(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the mappings that the implementations of a hook return, as one."""
        merged: dict[str, Any] = {}
        for mapping in self.call(name, **arguments):
            merged.update(mapping)
        return merged

    def _switch_off(self, implementation: pluggy.HookImpl, name: str, error: BaseException) -> None:
        if not self._manager.is_registered(implementation.plugin):
            return  # another thread was faster
        self._manager.unregister(implementation.plugin)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}"
        if frame.filename == __file__:  # a check
            code = implementation.function.__code__
            place = f"its result is wrong; {code.co_filename}:{code.co_firstlineno}"
        print(
            f"plug-in {implementation.plugin_name} is switched off: {name} raised "
            f"{type(error).__name__}: {error} ({place})",
            file=sys.stderr,
            flush=True,
        )


@cache
def installed_plugins() -> Plugins:
    """Return the features and the installed plug-ins of this process.

    Raises:
        UsageError: a plug-in cannot be loaded.
    """
    return plugins_with()


def plugins_with(*plugins: tuple[str, object]) -> Plugins:
    """Return the features, the installed plug-ins, and these named ones of the caller.

    Raises:
        UsageError: a plug-in cannot be loaded.
    """
    features = [(name, import_module(name)) for name in _FEATURES if _exists(name)]
    return Plugins([*features, *_entry_points(), *plugins])


def add_plugin_commands(app: object) -> None:
    """Add the commands of installed plug-ins to the command line, a `typer.Typer`.

    Raises:
        UsageError: a plug-in cannot be loaded.
    """
    if entries := _entry_points():  # features have no commands here, and importing them is slow
        Plugins(entries).call("add_commands", app=app)


def _entry_points() -> list[tuple[str, object]]:
    if os.environ.get(_VARIABLE) == "off":
        return []
    plugins: dict[str, object] = {}
    for entry in plugin_entry_points():
        # two packages may use one name
        name = f"{entry.name} ({entry.value})" if entry.name in plugins else entry.name
        try:
            plugins[name] = entry.load()
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"plug-in {entry.name} ({entry.value}) cannot be loaded: {error}; repair or "
                f"uninstall it, or set {_VARIABLE}=off"
            ) from error
    return [*plugins.items()]


def _exists(name: str) -> bool:
    try:
        return util.find_spec(name) is not None
    except ModuleNotFoundError:  # its package is not installed
        return False


class CrawlService(Protocol):
    """The service that an implementation of the hook `crawl_service` returns."""

    def start(self) -> None:
        """Start; called after the crawl has locked the workspace."""
        ...

    def finish(self) -> None:
        """Complete the remaining work within a few seconds, and end."""
        ...

    def close(self) -> None:
        """End now. Called in any case, after `finish` too."""
        ...


class CrawlServices:
    """The services of all plug-ins for one crawl."""

    def __init__(self, root: str, config: Any, report: Callable[[str], None]) -> None:
        self._services: list[CrawlService] = installed_plugins().call(
            "crawl_service", root=root, config=config, report=report
        )

    def start(self) -> None:
        for service in self._services:
            service.start()

    def finish(self) -> None:
        for service in self._services:
            service.finish()

    def close(self) -> None:
        for service in self._services:
            service.close()
