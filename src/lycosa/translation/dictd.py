"""Read dictionaries of dictd (RFC 2229; Debian's dict-freedict-*).

NAME.index      headword TAB offset TAB length, numbers in base 64
NAME.dict.dz    the entries: headword with its pronunciation, then a line a sense
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from lycosa.core.errors import UsageError
from lycosa.translation.dictionaries import DictionaryEntry, translations, weight_of

MAX_BYTES = 512 * 2**20  # of text
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NUMBERED = re.compile(r"^\d+\.\s*(.*)$")
_ABOUT = "00database"


def dictd(path: Path) -> Iterator[DictionaryEntry]:
    """Read a dictionary, given by one of its files or their common stem.

    Raises:
        UsageError: a file is missing or damaged.
    """
    base = str(path)
    for ending in (".index", ".dict.dz", ".dict"):
        base = base.removesuffix(ending)
    index = Path(f"{base}.index")
    text = Path(f"{base}.dict.dz")
    if not text.is_file():
        text = Path(f"{base}.dict")
    if not text.is_file() or not index.is_file():
        raise UsageError(
            f"{path} is not a dictd dictionary: {base}.index and {base}.dict.dz must exist"
        )
    try:
        content = _read(text)
        rows = index.read_text(encoding="utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for row in rows:
        cells = row.split("\t")
        if len(cells) < 3 or not cells[0].strip() or cells[0].startswith(_ABOUT):
            continue
        start, length = _number(cells[1]), _number(cells[2])
        if start < 0 or length < 0 or start + length > len(content):
            raise UsageError(f"{index} is damaged: {row[:80]!r} is not a position in {text.name}")
        yield from _entries(
            cells[0].strip(), content[start : start + length].decode("utf-8", "replace")
        )


def _read(path: Path) -> bytes:
    with gzip.open(path) if path.suffix == ".dz" else path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path} contains more than {MAX_BYTES >> 20} MiB of text")
    return content


def _number(digits: str) -> int:
    """Read a number in base 64; -1 if it is not one."""
    value = 0
    for digit in digits:
        place = _DIGITS.find(digit)
        if place < 0:
            return -1
        value = value * 64 + place
    return value


def _entries(word: str, text: str) -> Iterator[DictionaryEntry]:
    """Read the senses of an entry: numbered lines, or else the first line."""
    lines = text.split("\n")[1:]
    senses = [match[1] for line in lines if (match := _NUMBERED.match(line))]
    if not senses:
        senses = [
            line.lstrip("- ")
            for line in lines
            if line.strip() and (not line.startswith(" ") or line.startswith(" - "))
        ][:1]
    for sense, line in enumerate(senses):
        yield from (
            DictionaryEntry(word, each, weight_of(sense, place))
            for place, each in enumerate(translations(line))
        )
