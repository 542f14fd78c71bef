"""`python -m bench.documents DIR…`: what reading documents costs, and how much of their text comes out.

DIR holds documents of any kind, at any depth; beside `x.doc` may lie `x.txt`, what another program (LibreOffice, pdftotext) makes of it:
recall is then the share of its words, counted, that we have too. Prints one line a kind.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document

_WORD = re.compile(r"\w{2,}")
_FEW = 5  # words below which a reference says nothing
_MOST_BYTES = 20_000_000


@dataclass
class Tally:
    """Of the files with one extension."""

    files: int = 0
    unknown: int = 0
    empty: int = 0
    bytes: int = 0
    characters: int = 0
    cpu_s: float = 0.0
    slowest_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    recall: list[float] = field(default_factory=list)


def words(text: str) -> Counter[str]:
    """The words of a text, counted."""
    return Counter(_WORD.findall(text.lower()))


def measure(path: Path, tally: Tally) -> None:
    """Read one file."""
    payload = path.read_bytes()
    tally.files += 1
    tally.bytes += len(payload)
    kind = kind_of(payload)
    if kind is None:
        tally.unknown += 1
        return
    start = time.process_time()
    page = parse_document(payload, kind, url="http://localhost/")
    spent = time.process_time() - start
    tally.cpu_s += spent
    tally.slowest_s = max(tally.slowest_s, spent)
    tally.characters += len(page.text)
    tally.empty += not page.text
    tally.faults.update(page.faults)
    reference = path.with_suffix(".txt")
    if reference.exists():
        wanted = words(reference.read_text(errors="replace"))
        if wanted.total() >= _FEW:
            tally.recall.append((wanted & words(page.text)).total() / wanted.total())


def main() -> None:
    """Measure every document below the folders given."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for folder in map(Path, sys.argv[1:]):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".txt" and path.stat().st_size < _MOST_BYTES:
                measure(path, tallies[path.suffix.lower()])
    for suffix, tally in sorted(tallies.items()):
        recall = f"recall {sum(tally.recall) / len(tally.recall):.3f} of {len(tally.recall)}" if tally.recall else "no reference"
        faults = ", ".join(f"{name} {count}" for name, count in sorted(tally.faults.items()))
        print(
            f"{suffix:6} {tally.files:4} files  {tally.unknown} unknown  {tally.empty} empty  "
            f"{1000 * tally.cpu_s / tally.files:7.1f} ms a file  "
            f"slowest {tally.slowest_s:.2f} s  {tally.bytes / 1e6 / max(tally.cpu_s, 1e-9):6.1f} MB/s  {recall}  {faults}"
        )


if __name__ == "__main__":
    main()
