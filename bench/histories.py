"""When the pages of a real site changed, from the git repository of their sources.

    python -m bench.histories REPOSITORY FILE --suffix .xml [--suffix .rst]

Writes a Parquet file for `bench.freshness --history FILE`: path, and the dates in ms since 1970 of
all versions of its text. Comments, markup and white space are ignored. A moved page is a new one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from lycosa.text.digest import text_digest

_MARKUP = re.compile(rb"<!--.*?-->|<[^>]*>", re.DOTALL)
_NONE = "0" * 40


class Change(NamedTuple):
    """A commit to a file. `blob`: its content; `_NONE`: it was deleted."""

    path: str
    at_ms: int
    blob: str


def changes(repository: Path, suffixes: tuple[str, ...]) -> Iterator[Change]:
    """Yield all changes of the current branch, oldest first."""
    command = ["git", "-C", str(repository), "log", "--reverse", "--no-renames", "--first-parent"]
    command += ["--diff-merges=first-parent", "--raw", "--no-abbrev", "--format=@%ct", "-z"]
    output = subprocess.run(command, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )
    at_ms, blob = 0, ""
    for part in output.split("\0"):
        line = part.strip("\n")
        if line.startswith("@"):
            at_ms = int(line[1:].partition("\n")[0]) * 1000
            line = line.partition("\n")[2].strip("\n")
        if line.startswith(":"):
            blob = line.split(" ")[3]
        elif line.endswith(suffixes):
            yield Change(line, at_ms, blob)


def digests(repository: Path, blobs: set[str]) -> dict[str, int]:
    """Return the digest of the text of each blob."""
    command = ["git", "-C", str(repository), "cat-file", "--batch"]
    names = "".join(f"{blob}\n" for blob in blobs).encode()
    output = subprocess.run(command, input=names, capture_output=True, check=True).stdout
    result, place = {}, 0
    while place < len(output):
        end = output.index(b"\n", place)
        head = output[place:end].decode().split(" ")
        # "missing": snapshots of repositories lack large files
        place = end + 1 if len(head) == 2 else end + 2 + int(head[2])
        if place > end + 1:
            text = _MARKUP.sub(b" ", output[end + 1 : place - 1]).decode("utf-8", "replace")
            result[head[0]] = text_digest(" ".join(text.split()))
    return result


def versions(repository: Path, suffixes: tuple[str, ...]) -> dict[str, list[int]]:
    """Return the dates of the versions of every file that still exists."""
    history = list(changes(repository, suffixes))
    text = digests(repository, {change.blob for change in history} - {_NONE})
    dates: dict[str, list[int]] = {}
    last: dict[str, int] = {}
    for path, at_ms, blob in history:
        if blob == _NONE:
            dates.pop(path, None)
            last.pop(path, None)
        elif blob in text and last.get(path) != text[blob]:
            last[path] = text[blob]
            row = dates.setdefault(path, [])
            row.append(max(at_ms, *row[-1:], 0))
    return dates


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--suffix", action="append", required=True)
    options = parser.parse_args()
    dates = versions(options.repository, tuple(options.suffix))
    frame = pl.DataFrame({"path": list(dates), "versions": list(dates.values())})
    frame.write_parquet(options.file)
    print(f"{len(dates):,} pages, {sum(map(len, dates.values())):,} versions")


if __name__ == "__main__":
    main()
