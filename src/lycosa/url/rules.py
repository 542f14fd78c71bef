"""Opt-in rewriting rules of a collection, which map several URLs to one.

They may change the meaning of a URL, so all are off by default. A new rule is a function and an
entry of `_RULES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

from lycosa.config.settings import Collection
from lycosa.core.patterns import lazy_pattern
from lycosa.url.normalise import normalise
from lycosa.url.schemes import WEB

# Session ids as servers write them: Java servlets (in the path, any form of id), PHP, classic ASP,
# ASP.NET without cookies, ColdFusion, and shops derived from osCommerce. A bare `sid=` or
# `session=` counts only with an id's length and alphabet: `sid=3` may well choose a page.
_SESSION_IN_PATH = lazy_pattern(r";jsessionid(?:=[^;/?]*)?(?=[;/?]|$)", re.IGNORECASE)
_SESSION_SEGMENT = lazy_pattern(r"/\((?:[AFSX]\([A-Za-z0-9_-]{20,}\))+\)(?=/)")
_SESSION_PARAMETER = lazy_pattern(
    r"jsessionid=.*|phpsessid=.*|aspsessionid[a-z]{0,16}=.*|asp\.net_sessionid=.*|oscsid=.*"
    r"|zenid=.*"
    r"|cfid=\d+|cftoken=[0-9a-f-]{6,}"
    r"|(?:sid|sess|session|session_?id|sessid|xtcsid|php_?session_?id)=(?:[0-9a-f]{24,}"
    r"|(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{26,})",
    re.IGNORECASE,
)


Step = Callable[[str], str]


class Rules:
    """The rewriting rules of one collection. `apply` is idempotent; it takes and returns normalised
    URLs.
    """

    def __init__(self, collection: Collection) -> None:
        self._steps = [
            make(collection) for setting, make in _RULES.items() if getattr(collection, setting)
        ]
        self.active = bool(self._steps)
        """Whether any rule is on."""

    def apply(self, url: str) -> str:
        """Rewrite a normalised http or https URL; others are returned unchanged."""
        if not self._steps or not url.startswith(WEB):
            return url
        # a rule may uncover another's case; every round that changes something shortens the URL
        while True:
            rewritten = url
            for step in self._steps:
                rewritten = step(rewritten)
            if rewritten == url:
                return url
            url = normalise(rewritten)


def _parameter_rule(collection: Collection) -> Step:
    names = re.compile(f"(?:{'|'.join(map(_wildcard, collection.drop_parameters))})", re.DOTALL)

    def keep(parameter: str) -> bool:
        return names.fullmatch(unquote(parameter.partition("=")[0])) is None

    return lambda url: _filter_query(url, keep)


def _wildcard(pattern: str) -> str:
    """Return a regular expression for a parameter name; `*` matches any run of characters."""
    return ".*".join(re.escape(part) for part in re.split(r"\*+", pattern))


def _filter_query(url: str, keep: Callable[[str], bool]) -> str:
    """Remove the parameters that `keep` rejects, and the `?` with the last of them."""
    path, mark, query = url.partition("?")
    if not query:
        return url
    parameters = query.split("&")
    remaining = [parameter for parameter in parameters if keep(parameter)]
    if len(remaining) == len(parameters):
        return url
    return f"{path}{mark}{'&'.join(remaining)}" if remaining else path


def _drop_session_ids(url: str) -> str:
    path, mark, query = url.partition("?")
    start = path.index("/", 8)  # a hostname may contain ; ( and ) too
    site, path = path[:start], path[start:]
    if ";" in path:
        path = _SESSION_IN_PATH.sub("", path)
    if "/(" in path:
        path = _SESSION_SEGMENT.sub("", path)
    return _filter_query(
        f"{site}{path}{mark}{query}",
        lambda parameter: _SESSION_PARAMETER.fullmatch(parameter) is None,
    )


def _merge_slashes(url: str) -> str:
    path, mark, query = url.partition("?")
    start = path.index("/", 8)
    if "//" not in path[start:]:
        return url
    return path[:start] + re.sub("//+", "/", path[start:]) + mark + query


def _drop_trailing_dot(url: str) -> str:
    """Rewrite `example.org.` to `example.org`; hosts of only dots or with two at the end stay."""
    return re.sub(r"^(https?://[^/]*[^./])\.(?=[:/])", r"\1", url, count=1)


_RULES: Final[dict[str, Callable[[Collection], Step]]] = {
    "drop_session_ids": lambda _: _drop_session_ids,
    "drop_parameters": _parameter_rule,
    "merge_slashes": lambda _: _merge_slashes,
    "drop_trailing_dot": lambda _: _drop_trailing_dot,
}
"""By the setting of a collection that turns a rule on, in the order in which they are applied."""
