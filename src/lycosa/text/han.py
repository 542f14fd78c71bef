"""Chinese in one script: Traditional characters as Simplified ones, so that a query in either finds pages in both.

`han.txt` holds the pairs, from the Unicode CLDR's transliterator (`scripts/make_han.py`). Character by character, so lengths and
positions stay; what has several Simplified forms by context takes the usual one, on both sides of a search alike.
"""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def _table() -> dict[int, int]:
    traditional, simplified = resources.files("lycosa.text").joinpath("han.txt").read_text(encoding="utf-8").splitlines()
    return dict(zip(map(ord, traditional), map(ord, simplified), strict=True))


def simplified(text: str) -> str:
    """The text with its Traditional characters made Simplified; of the same length."""
    return text if text.isascii() else text.translate(_table())
