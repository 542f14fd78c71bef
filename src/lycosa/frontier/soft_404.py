"""Soft 404s: pages that say "not found" with status 200 (Bar-Yossef et al., "Sic transit gloria telae", WWW 2004). Pure.

What a host answers to a path that nobody made is the measure: whatever says nearly the same is not there either.
"""

from __future__ import annotations

import re
from typing import Final

from xxhash import xxh3_64_intdigest

from lycosa.text.digest import distance

NEAR = 3
"""Bits of 64 in which the simhashes of nearly equal texts differ at most."""

NEAR_WITH_TITLE = 8  # where the title says "not found" as well: such pages often repeat the address that was asked for
_LENGTHS = 0.1  # lengths of nearly equal texts differ at most by this share
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

_NOT_FOUND: Final = re.compile(
    r"\b(?:error\s*)?404\b|not\s+found|(?:does\s*n[o']t|no longer)\s+(?:exist|available)|cannot be found|nicht gefunden|introuvable"
    r"|non\s+trovat[ao]|no\s+(?:se\s+ha\s+)?encontrad[ao]|n[aã]o\s+(?:foi\s+)?encontrad[ao]|niet\s+gevonden|nie\s+znaleziono|hittades\s+inte"
    r"|bulunamad|tidak\s+ditemukan|không\s+tìm\s+thấy|не\s+найден|не\s+знайден|табылма|олдсонгүй|未找到|找不到|不存在|見つかりません|찾을\s*수\s*없"
    r"|غير\s+موجود|یافت\s+نشد|نہیں\s+ملا|नहीं\s+मिला|फेला\s+परेन|ไม่พบ|ບໍ່ພົບ|မတွေ့",
    re.IGNORECASE,
)


def soft_404_probe(host: str, seed: int = 0) -> str:
    """A path that no page of the host has: 20 letters drawn from the host's name and the seed, always the same for both."""
    first, second = xxh3_64_intdigest(host.encode(), seed=seed), xxh3_64_intdigest(host.encode(), seed=seed + 1)
    drawn = first << 64 | second
    letters = []
    for _ in range(20):
        drawn, letter = divmod(drawn, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "/" + "".join(letters)


def is_soft_404(page_simhash: int, probe_simhash: int, page_length: int, probe_length: int, title: str = "") -> bool:
    """Whether a page with status 200 says what the host answered to a made-up path, also with status 200.

    Never ask it of a host's front page: a site of one page answers with it to everything.

    Args:
        page_length: characters of the page's text; `probe_length` those of the answer to the made-up path.
        title: of the page; one that speaks of "not found" lets the texts differ more.
    """
    if not page_length or not probe_length or not page_simhash or not probe_simhash:
        return False  # pages without text cannot be told apart by it
    allowed = NEAR_WITH_TITLE if looks_not_found(title) else NEAR
    return abs(page_length - probe_length) <= _LENGTHS * max(page_length, probe_length) and distance(page_simhash, probe_simhash) <= allowed


def looks_not_found(title: str) -> bool:
    """Whether a title speaks of a page that is not there, in one of some 25 languages."""
    return _NOT_FOUND.search(title[:200]) is not None
