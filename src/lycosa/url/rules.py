"""Opt-in rules of a collection that make one URL of several: they may change what a URL means, so
nothing is on by default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

from lycosa.config.settings import Collection
from lycosa.url.normalise import normalise
from lycosa.url.schemes import WEB

# Session ids as servers write them: Java servlets (in the path, any form of id), PHP, classic ASP,
# ASP.NET without cookies, ColdFusion, and shops derived from osCommerce. A bare `sid=` or
# `session=` counts only with an id's length and alphabet: `sid=3` may well choose a page.
_SESSION_IN_PATH = re.compile(r";jsessionid(?:=[^;/?]*)?(?=[;/?]|$)", re.IGNORECASE)
_SESSION_SEGMENT = re.compile(r"/\((?:[AFSX]\([A-Za-z0-9_-]{20,}\))+\)(?=/)")
_SESSION_PARAMETER = re.compile(
    r"jsessionid=.*|phpsessid=.*|aspsessionid[a-z]{0,16}=.*|asp\.net_sessionid=.*|oscsid=.*|zenid=.*"
    r"|cfid=\d+|cftoken=[0-9a-f-]{6,}"
    r"|(?:sid|sess|session|session_?id|sessid|xtcsid|php_?session_?id)=(?:[0-9a-f]{24,}|(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{26,})",
    re.IGNORECASE,
)


class Rules:
    """The rewriting rules of one collection. `apply` is idempotent and takes and gives normalised
    URLs.
    """

    def __init__(self, collection: Collection) -> None:
        steps: list[Callable[[str], str]] = []
        if collection.drop_session_ids:
            steps.append(_drop_session_ids)
        if collection.drop_parameters:
            names = "|".join(_wildcard(pattern) for pattern in collection.drop_parameters)
            self._names = re.compile(rf"(?:{names})", re.DOTALL)
            steps.append(self._drop_parameters)
        if collection.merge_slashes:
            steps.append(_merge_slashes)
        if collection.drop_trailing_dot:
            steps.append(_drop_trailing_dot)
        self._steps = tuple(steps)

    @property
    def active(self) -> bool:
        """Whether any rule is on."""
        return bool(self._steps)

    def apply(self, url: str) -> str:
        """Rewrite a normalised URL; without rules, and if it is none of the web, it is returned as
        it is.
        """
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

    def _drop_parameters(self, url: str) -> str:
        return _filter_query(
            url,
            lambda parameter: self._names.fullmatch(unquote(parameter.partition("=")[0])) is None,
        )


def _wildcard(pattern: str) -> str:
    """A regular expression for a parameter's name: `*` is any run of characters, the rest stands
    for itself.
    """
    return ".*".join(re.escape(part) for part in re.split(r"\*+", pattern))


def _filter_query(url: str, keep: Callable[[str], bool]) -> str:
    """The URL without the parameters that are not to be kept; the `?` goes with the last of
    them.
    """
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
    start = path.index("/", 8)  # a hostname may hold ; ( and ) too
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
    """`example.org.` -> `example.org`; a host of nothing but dots, or with two at its end, is no
    such name and stays.
    """
    return re.sub(r"^(https?://[^/]*[^./])\.(?=[:/])", r"\1", url, count=1)
