"""The library: pages/s by CPU and by the clock, and the peak of memory, for each kind; and the
tables of `status --by`.

    python -m bench.export [--pages 100000] [--kinds xml,jsonl,parquet,text] [--workspace FOLDER]

Generates the state straight into tables (no archive): pages of about 4 KB of text with 30 links, in
ten collections on seven days, a second visit without a change each. Each kind is exported by
`lycosa` itself in a fresh process, then again, when everything stands already. XML is then read by
lxml, file by file, against the schema.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from lxml import etree
from tests.store.builders import identify, make_visit, url_row

from bench.harness import machine, measure, table
from lycosa.core.records import Link, LinkKind, Page, UrlState
from lycosa.export.library.xml import SCHEMA
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest

COLLECTIONS = ("zh", "en", "ja", "ko", "de", "ar", "hi", "ru", "fr", "vi")
DAYS, START_MS, DAY_MS = 7, 1_793_000_000_000, 86_400_000
HOSTS, TEXT_CHARACTERS, LINKS = 500, 3_000, 30
_COMMIT_PAGES = 5_000
_ALPHABETS = {
    "zh": "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也",
    "ja": "のにはをたがでてとしれさあるいるも日本人大学生会社",
    "ko": "이다의가을는에하고한지도로서기자사대",
    "ar": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "hi": "अआइईउऊएऐओऔकखगघचछजझटठडढतथदधनपफबभमयरलवशषसह",
    "ru": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
}


def build(root: Path, pages: int) -> Workspace:
    """The state. Texts are words at random: what an export costs does not depend on what they
    say.
    """
    workspace = Workspace.create(str(root))
    claim = workspace.claim("bench")
    chance = random.Random(5)
    words = {
        name: [
            "".join(
                chance.choices(
                    _ALPHABETS.get(name, "abcdefghijklmnopqrstuvwxyz"), k=chance.randint(2, 9)
                )
            )
            for _ in range(3_000)
        ]
        for name in COLLECTIONS
    }
    for start in range(0, pages, _COMMIT_PAGES):
        buffers = Buffers()
        for number in range(start, min(start + _COMMIT_PAGES, pages)):
            name = COLLECTIONS[number % len(COLLECTIONS)]
            url = identify(
                workspace,
                f"https://www.site{number % HOSTS}.example/{name}/section/article-{number}.html",
            )
            at = START_MS + number % DAYS * DAY_MS + number
            text = (
                f"{number} "
                + "\n".join(
                    " ".join(chance.choices(words[name], k=TEXT_CHARACTERS // 60)) for _ in range(8)
                )
                + " <&>"
            )
            page = Page(
                title=text[:40], headline=text[:40], text=text + "\nmenu", main_text=text, language=name, charset="utf-8",
                text_digest=text_digest(text), size=4 * len(text),
                links=[
                    Link(f"https://{url.host}/{name}/other-{(number * 7 + each) % pages}.html?a=1&b=2", text[:20], "", LinkKind.A, each)
                    for each in range(LINKS)
                ],
            )  # fmt: skip
            for visit in (
                make_visit(url, at=at, collection=name),
                make_visit(url, at=at + DAY_MS // 2, collection=name),
            ):
                visit.content_type, visit.content_length, visit.changed = (
                    "text/html",
                    page.size,
                    visit.fetched_at == at,
                )
                visit.record_id = f"<urn:uuid:00000000-0000-4000-8000-{number:012d}>"
                buffers.add_visit(visit)
            row = url_row(url, UrlState.VISITED)
            row.collection = name
            buffers.add_url(row)
            buffers.add_page(visit, page)
            buffers.links.add_links(visit, page.links)
        claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return workspace


def run(scratch: Path, *words: str) -> tuple[float, float, float]:
    """CPU s, s and peak MB of a command in a process of its own."""
    used = measure([sys.executable, "-m", "lycosa.cli.main", *words], output=scratch / "said")
    if used.exit_code:
        raise SystemExit((scratch / "said").read_text())
    return used.cpu_s, used.wall_s, used.peak_rss_mb


def validate(folder: Path) -> int:
    """How many documents the files hold, each of which is valid."""
    schema = etree.XMLSchema(etree.parse(str(SCHEMA)))
    found = 0
    for path in sorted(folder.rglob("*.xml")):
        tree = etree.parse(str(path))
        schema.assertValid(tree)
        found += len(tree.getroot())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--kinds", default="xml,jsonl,parquet,text")
    parser.add_argument("--workspace", default="")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="lycosa-export-"))
    try:
        root = Path(options.workspace) if options.workspace else scratch / "w"
        if not (root / "workspace.json").exists():
            build(root, options.pages)
        rows = []
        for kind in options.kinds.split(","):
            target = scratch / kind
            for again in ("", " again"):
                cpu, seconds, peak = run(
                    scratch, "-w", str(root), "export", kind, str(target), "-q"
                )
                rate = (f"{options.pages / cpu:,.0f}", f"{options.pages / seconds:,.0f}")
                rows.append([f"export {kind}{again}", *rate, f"{cpu:.1f}", f"{peak:.0f}"])
            size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
            note = f"{validate(target):,} documents valid, " if kind == "xml" else ""
            print(
                f"{kind}: {note}{size / 1e6:,.0f} MB in "
                f"{sum(1 for path in target.rglob('*-*-*-*-*.*'))} files",
                flush=True,
            )
        for way in ("language", "host"):
            cpu, seconds, peak = run(scratch, "-w", str(root), "status", "--by", way)
            rows.append(
                [
                    f"status --by {way}",
                    f"{options.pages / cpu:,.0f}",
                    f"{options.pages / seconds:,.0f}",
                    f"{cpu:.1f}",
                    f"{peak:.0f}",
                ]
            )
        print(machine(), f"load {os.getloadavg()[0]:.0f}")
        print(table(["", "pages a CPU second", "pages a second", "CPU s", "peak MB"], rows))
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
