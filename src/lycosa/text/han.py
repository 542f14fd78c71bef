"""Convert Traditional to Simplified Chinese, so that a query in either finds pages in both.

`han.txt` contains the pairs of Unicode CLDR (`scripts/make_han.py`). Single characters are
replaced, by the usual form if there are several, so that lengths and positions remain.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import resources


@functools.cache
def _traditional() -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return the pattern of Traditional characters, and the replacement function."""
    traditional, simplified = (
        resources.files("lycosa.text").joinpath("han.txt").read_text(encoding="utf-8").splitlines()
    )
    pairs = dict(zip(traditional, simplified, strict=True))
    return re.compile(f"[{re.escape(traditional)}]"), lambda match: pairs[match[0]]


def simplified(text: str) -> str:
    """Replace Traditional by Simplified characters. Hot path: faster than `str.translate`."""
    if text.isascii():
        return text
    pattern, replace = _traditional()
    return pattern.sub(replace, text)
