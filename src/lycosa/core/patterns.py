"""Regular expressions that are compiled on first use."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Deferred:
    """A pattern that is compiled when an attribute is first read."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return `re.compile(source, flags)`, compiled on first use, with its methods and attributes.

    For modules that every crawl imports and few pages need: compiling all patterns at import takes
    longer than the crawl of a small page.
    """
    return cast("re.Pattern[AnyStr]", _Deferred(source, flags))
