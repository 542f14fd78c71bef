"""The keyword arguments of the Python API, once for types, documentation and completion."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from functools import cache, wraps
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    Protocol,
    TypedDict,
    TypeVar,
    cast,
    runtime_checkable,
)

from lycosa.core.errors import UsageError
from lycosa.core.parameters import texts

if TYPE_CHECKING:
    from lycosa.commands.page_models import FetchedPage
    from lycosa.core.parameters import Duration
    from lycosa.crawl.state.progress import Progress
    from lycosa.matching.matches import StoredMatch
    from lycosa.processes.threads import Stoppable

_Method = TypeVar("_Method", bound=Callable[..., Any])


class SearchArguments(TypedDict, total=False):
    """Arguments of `Workspace.search`. Defaults: 10 results, by relevance, of this workspace.

    - `language`, `collection`, `site`: only pages in this language (ISO 639 code), of this
      collection, of this host or below a path of it (`example.org/docs`).
    - `order`: "date" for newest first; by default by relevance.
    - `per_host`: maximum number of results per host before those of other hosts; 0: no limit.
    - `copies`: also return pages with the same text.
    - `facets`: count all results by language, host, collection, type or date.
    - `explain`: return how each score is computed.
    - `feedback`: "on", "off" or "auto": add terms of the first results to the query.
    - `across`: also search in these languages; (): in all languages of the index.
    - `source_language`: language of the query, if it is not identified correctly.
    - `translate`: use these translations, such as "de:house=Haus|Gebäude".
    - `workspaces`, `peers`: search these workspaces and Lycosa servers too.
    - `local`: ignore the workspaces and peers of the configuration.
    """

    count: int
    offset: int
    language: str
    collection: str
    site: str
    order: str
    per_host: int
    copies: bool
    facets: Sequence[str]
    explain: bool
    feedback: str
    spelling: bool
    across: Sequence[str] | None
    source_language: str
    translate: Sequence[str]
    workspaces: Sequence[str]
    peers: Sequence[str]
    local: bool


class PassageArguments(TypedDict, total=False):
    """Arguments of `Texts.passages`. Defaults: 10 passages of at most 200 tokens.

    - `count`: maximum number of passages.
    - `max_tokens`: of each passage; `budget`: of all passages together. Tokens are estimated.
    - `language`, `collection`, `site`: only pages in this language (ISO 639 code), of this
      collection, of this host or below a path of it (`example.org/docs`).
    - `ranking`: "keyword", "vector" or "hybrid"; default: hybrid if an encoder is configured.
    """

    count: int
    max_tokens: int
    budget: int
    language: str
    collection: str
    site: str
    ranking: str


class TermsArguments(TypedDict, total=False):
    """Arguments of `WorkspaceStatistics.terms`. Defaults: the 50 most frequent words of all pages.

    - `since`, `until`: milliseconds since 1970 UTC.
    - `rising`: only words that are more frequent in the pages of the last `period`.
    - `stop_words`: include function words, and words spread evenly over the pages.
    """

    language: str
    site: str
    collection: str
    since: int
    until: int
    rising: bool
    period: Duration
    stop_words: bool
    count: int


class CrawlArguments(TypedDict, total=False):
    """Arguments of `Workspace.crawl`. Defaults: the settings of the collection, and no limit.

    - `max_time`, `delay`: seconds, a `timedelta`, or text such as "10m".
    - `depth`: maximum number of links from a seed.
    - `scope`: "host", "domain", "prefix" or "any": which links to follow.
    - `strategy`: "breadth-first", "depth-first", "server-first" or "best-first".
    - `start`: fetch only known unvisited URLs: from this URL on, or all ("unvisited").
    - `index`: update the search index.
    - `engine`, `address`, `workers`: crawl with several workers, here or on a Ray cluster.
    - `on_progress`: called several times a second with the counters.
    - `on_page`: called with each fetched page, not with several workers.
    - `on_start`: called with an object with a method `stop`, which ends the crawl early.

    An error of these functions ends the crawl and is raised.
    """

    collection: str
    max_pages: int | None
    max_time: Duration | None
    depth: int | None
    delay: Duration | None
    scope: str
    strategy: str
    start: str
    index: bool
    engine: str
    address: str
    workers: int | None
    on_progress: Callable[[Progress], None] | None
    on_page: Callable[[FetchedPage], None] | None
    on_start: Callable[[Stoppable], None] | None


class HuntArguments(TypedDict, total=False):
    """Arguments of `Workspace.hunt`. Default: stop after 30 s.

    - `seeds`: pages to start from; without any, matching pages of the index (`from_index`).
    - `time`, `pages`, `enough`: stop after this time, this many pages, this many relevant pages.
    - `time`, `delay`: seconds, a `timedelta`, or text such as "10m".
    - `strategy`: "best", "fish" or "shark": how to select links.
    - `agents`: number of concurrent requests.
    - `width`, `depth`: for fish and shark: links per page, steps without a relevant page.
    - `on_event`: called with each event of the hunt, see `lycosa hunt --jsonl`.
    """

    seeds: str | Iterable[str]
    time: Duration | None
    pages: int | None
    enough: int | None
    strategy: str
    from_index: bool | None
    agents: int
    width: int
    depth: int
    scope: str
    delay: Duration | None
    collection: str
    on_event: Callable[[dict[str, Any]], None] | None


class FindArguments(TypedDict, total=False):
    """Arguments of `Texts.find_in_site`.

    - `ignore`: "case", "accents", "width".
    - `max_age`: pages without a stored copy of this age are fetched first; default one day.
    - `on_match`: called with each match; `report`: with messages for people.
    """

    ignore: Sequence[str]
    collection: str
    max_age: Duration
    max_pages: int | None
    delay: Duration | None
    on_match: Callable[[StoredMatch], None]
    on_start: Callable[[Stoppable], None]
    report: Callable[[str], None]


def accepts(arguments: type) -> Callable[[_Method], _Method]:
    """Return a decorator that lists the keyword arguments in the signature of a method.

    `help` and the completion of notebooks then show them, as type checkers do.
    """

    def describe(method: _Method) -> _Method:
        signature = inspect.signature(method)
        named = list(signature.parameters.values())[:-1]  # without **options
        only = inspect.Parameter.KEYWORD_ONLY
        named += [
            inspect.Parameter(name, only, default=..., annotation=annotation.__forward_arg__)
            for name, annotation in arguments.__annotations__.items()
        ]
        vars(method)["__signature__"] = signature.replace(parameters=named)
        return method

    return describe


class CheckedCalls:
    """Base of the classes of the API: public methods check their arguments.

    The types in the signature decide. An argument of another type is a `UsageError`. A path is
    accepted in place of a text, and a text in place of a list.
    """

    def __init_subclass__(cls) -> None:
        for name, method in [*vars(cls).items()]:
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, checked(method))


def checked(method: _Method) -> _Method:
    """Return a method that checks its arguments before the call."""
    signature = inspect.signature(method)
    called = method.__qualname__.removesuffix(".__init__")

    @wraps(method)
    def call(*positional: Any, **named: Any) -> Any:
        try:
            arguments = signature.bind(*positional, **named)
        except TypeError as error:
            raise TypeError(f"{called}: {error}") from None
        for name, value in arguments.arguments.items():
            parameter = signature.parameters[name]
            if parameter.annotation is not parameter.empty:  # not `self`
                place = f"{called}: {name}"
                arguments.arguments[name] = _argument(place, value, parameter, method)
        return method(*arguments.args, **arguments.kwargs)

    return cast(_Method, call)


def _argument(
    place: str, value: Any, parameter: inspect.Parameter, method: Callable[..., Any]
) -> Any:
    """Return the value of an argument, paths as texts and lists as tuples. Raises UsageError."""
    types = _types_of(parameter.annotation)
    in_list = types & _LISTS and not (value is None or ("str" in types and isinstance(value, str)))
    if in_list or parameter.kind is parameter.VAR_POSITIONAL:
        value = texts(place, value)
    elif isinstance(value, os.PathLike) and "str" in types:
        value = os.fspath(value)
    else:
        _require_type(place, value, types, parameter.default, method.__globals__)
    if parameter.name not in _QUERIES:
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and _NOT_TEXT.search(text):
                raise UsageError(
                    f"{place}: {text!r} has a null character or half of a surrogate pair: remove it"
                )
    return value


def _require_type(
    place: str, value: object, types: frozenset[str], default: object, names: Mapping[str, Any]
) -> None:
    """Raise UsageError if a value, or a field of a dataclass, has another type.

    `types`: names of types as in source code. `names`: those of the module that refers to them.
    """
    kinds = [_KINDS.get(name) or _Kind(names[name], f"of type {name}") for name in types - {"None"}]
    if value is None and "None" in types:
        return
    fitting = [kind for kind in kinds if isinstance(value, kind.types)]
    if not fitting or (isinstance(value, bool) and not {"bool", "object"} & types):
        expected = " or ".join(sorted(kind.description for kind in kinds))
        like = f" such as {default!r}" if isinstance(default, str) and default else ""
        hint = "; leave it out for the default" if default is not inspect.Parameter.empty else ""
        raise UsageError(f"{place}: {value!r} is not {expected}{like}{hint}")
    if "int" in types and isinstance(value, int) and not 0 <= value < 2**63:
        raise UsageError(f"{place}: {value} is not {_KINDS['int'].description} and below 2**63")
    if is_dataclass(value):
        names = vars(sys.modules[type(value).__module__])
        for field in fields(value):
            types = _types_of(str(field.type))
            _require_type(f"{place}.{field.name}", getattr(value, field.name), types, None, names)


@cache
def _types_of(annotation: str) -> frozenset[str]:
    """Return the alternatives of a type: `int | None` is "int" and "None"."""

    def alternatives(node: ast.expr) -> list[str]:
        if isinstance(node, ast.BinOp):
            return alternatives(node.left) + alternatives(node.right)
        text = ast.unparse(node)
        return ["Callable" if text.startswith("Callable[") else text]

    return frozenset(alternatives(ast.parse(annotation, mode="eval").body))


class _Kind(NamedTuple):
    types: type | tuple[type, ...]
    description: str


@runtime_checkable
class _Writable(Protocol):
    def write(self, content: bytes, /) -> int: ...


_QUERIES = {"query", "question"}  # of any characters
_NOT_TEXT = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")  # \udc80-\udcff: see `os.fsdecode`
_LISTS = frozenset({"Sequence[str]", "Sequence[Path | str]", "Iterable[str]"})
_SETTINGS = "a mapping such as {'fetch': {'user_agent': 'x'}}, or text such as 'fetch.user_agent=x'"
_KINDS = {
    "str": _Kind(str, "text"),
    "bytes": _Kind(bytes, "bytes"),
    "int": _Kind(int, "an integer of at least 0"),
    "bool": _Kind(bool, "True or False"),
    "date": _Kind(date, "a date or time"),
    "Path": _Kind(os.PathLike, "a path"),
    "os.PathLike[str]": _Kind(os.PathLike, "a path"),
    "object": _Kind(object, "a value"),
    "Callable": _Kind(Callable, "a function"),  # type: ignore[arg-type]
    "BinaryIO": _Kind(_Writable, "a file that is open for writing"),
    "MutableMapping[str, str]": _Kind(MutableMapping, "a dictionary"),
    "Duration": _Kind(
        (str, int, float, timedelta), "a duration: seconds, a timedelta, or text such as '10m'"
    ),
    "Settings": _Kind((Mapping, str, Iterable), _SETTINGS),
    "VersionName": _Kind((str, int, datetime), "the number or time of a version"),
    **dict.fromkeys(_LISTS, _Kind((str, Iterable), "a list of texts")),
}
