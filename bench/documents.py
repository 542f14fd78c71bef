"""`python -m bench.documents DIR… [--damaged N [--only pdf,doc]]`: what reading documents costs,
and how much of their text comes out.

DIR holds documents of any kind, at any depth; beside `x.doc` may lie `x.txt`, what another program
(LibreOffice, pdftotext) makes of it: recall is then the share of its words, counted, that we have
too. Prints one line a kind.

`--damaged N`: N damaged ones of each kind instead, made of the real ones in turn, go through a pool
of one child with its default limits. Prints what came of them, the slowest, and whether the child
still reads a sound file after each hundred.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from lycosa.core.records import Exchange, Page
from lycosa.crawl.documents.pool import DocumentPool
from lycosa.crawl.documents.wire import DocumentLimits
from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document

_WORD = re.compile(r"\w{2,}")
_FEW = 5  # words below which a reference says nothing
_MAX_BYTES = 20_000_000


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


def damaged(payload: bytes, chance: random.Random) -> bytes:
    """A file cut off, with bits flipped, with stretches gone or doubled, or with other numbers
    where lengths and offsets stand.
    """
    kind = chance.randrange(4)
    if kind == 0:
        return payload[: chance.randrange(1, len(payload))]
    changed = bytearray(payload)
    if kind == 1:
        for _ in range(chance.randint(1, 200)):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    start, other = chance.randrange(len(changed)), chance.randrange(len(changed))
    length = chance.randint(1, max(1, len(changed) // 20))
    if kind == 2:
        changed[start : start + length] = changed[other : other + length] * chance.randint(0, 3)
    else:  # numbers where others stood: lengths, offsets, object numbers
        for _ in range(chance.randint(1, 50)):
            place = chance.randrange(len(changed))
            changed[place : place + 4] = chance.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"9999", b"-1 0")
            )
    return bytes(changed)


def fuzz(files: list[Path], count: int, seed: int = 5) -> Tally:
    """So many damaged files through one child. The faults are counted; `slowest_s` is by the clock.

    Raises:
        AssertionError: the pool does not read a sound file any more, or a file took longer than the
        limits allow.
    """
    chance, tally = random.Random(seed), Tally()
    pool = DocumentPool(DocumentLimits(processes=1))
    sound = next(
        payload
        for path in files
        if (read := _read(pool, payload := path.read_bytes())) and read.text and not read.faults
    )
    try:
        for number in range(count):
            payload = damaged(files[number % len(files)].read_bytes(), chance)
            started = time.perf_counter()
            page = _read(pool, payload)
            tally.slowest_s = max(tally.slowest_s, time.perf_counter() - started)
            tally.files += 1
            tally.unknown += page is None
            tally.faults.update(page.faults if page is not None else ())
            tally.empty += page is not None and not page.text
            if number % 100 == 99:
                after = _read(pool, sound)
                assert after is not None, "a sound file is not read any more"
                assert not after.faults, after.faults
                print(
                    f"{number + 1}: slowest {tally.slowest_s:.1f} s, {dict(tally.faults)}",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        pool.close()
    return tally


def _read(pool: DocumentPool, payload: bytes) -> Page | None:
    return pool.read(
        Exchange(
            "http://h/d",
            "page",
            0,
            1,
            response_head=b"HTTP/1.1 200 OK\r\n\r\n",
            body=payload,
            status=200,
        )
    ).page


def main() -> None:
    """Measure every document below the folders given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--damaged", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds by their extension")
    parser.add_argument("--seed", type=int, default=5, help="of the damage")
    options = parser.parse_args()
    only = {f".{name}" for name in options.only.split(",") if name}
    found = (path for folder in options.folders for path in sorted(folder.rglob("*")))
    files = [
        path
        for path in found
        if path.is_file() and path.suffix != ".txt" and path.stat().st_size < _MAX_BYTES
    ]
    files = [path for path in files if not only or path.suffix.lower() in only]
    tallies: dict[str, Tally] = defaultdict(Tally)
    if options.damaged:
        for suffix in sorted({path.suffix.lower() for path in files}):
            tally = fuzz(
                [path for path in files if path.suffix.lower() == suffix],
                options.damaged,
                options.seed,
            )
            faults = ", ".join(f"{name} {count}" for name, count in sorted(tally.faults.items()))
            counts = f"{tally.files} damaged  {tally.unknown} no document  {tally.empty} empty"
            print(f"{suffix:6} {counts}  slowest {tally.slowest_s:.1f} s  {faults}", flush=True)
        return
    for path in files:
        measure(path, tallies[path.suffix.lower()])
    for suffix, tally in sorted(tallies.items()):
        recall = (
            f"recall {sum(tally.recall) / len(tally.recall):.3f} of {len(tally.recall)}"
            if tally.recall
            else "no reference"
        )
        faults = ", ".join(f"{name} {count}" for name, count in sorted(tally.faults.items()))
        print(
            f"{suffix:6} {tally.files:4} files  {tally.unknown} unknown  {tally.empty} empty  "
            f"{1000 * tally.cpu_s / tally.files:7.1f} ms a file  "
            f"slowest {tally.slowest_s:.2f} s  {tally.bytes / 1e6 / max(tally.cpu_s, 1e-9):6.1f} "
            f"MB/s  {recall}  {faults}"
        )


if __name__ == "__main__":
    main()
