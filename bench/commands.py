"""CPU, wall time and memory of commands: start, crawl, export, status and site audit, with limits.

    python -m bench.commands [--pages 100000] [--kinds xml,jsonl,parquet,text] [--runs N]
    python -m bench.commands --rank

Tables are generated without an archive: pages of about 4 KB of text with 30 links, in ten
collections on seven days, each with a second visit without a change. The site audit reads a
workspace of 700 pages on one host. Each command runs in a new process. The XML files are validated
against the schema. `--help` measures the start, and `crawl` of one page the start of a crawl.

`--rank` measures `lycosa rank` once for each of `RANKED`, after a crawl of these sites: CPU per page
of the first call, of a second one without changes, and of the crawl.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from lxml import etree
from tests.servers.nginx import Server, nginx
from tests.servers.sites import create_sites, serve_sites
from tests.store.builders import identify, make_visit, url_row

from bench.harness import arguments, lycosa, measure, report, table
from bench.peers.commands import COMMANDS
from lycosa.core.records import Link, LinkKind, Page, UrlState
from lycosa.export.library.xml import SCHEMA
from lycosa.graph.generation import newest
from lycosa.store.tables.buffers import Buffers
from lycosa.store.workspace import Workspace
from lycosa.text.digest import text_digest

COLLECTIONS = ("zh", "en", "ja", "ko", "de", "ar", "hi", "ru", "fr", "vi")
DAYS, START_MS, DAY_MS = 7, 1_793_000_000_000, 86_400_000
HOSTS, TEXT_CHARACTERS, LINKS = 500, 3_000, 30
SITE_PAGES = 700
MAX_CPU_S = {"--help": 0.3, "crawl": 0.7, "site": 2.0}
MIN_PAGES_PER_CPU_S = 2_000
RANKED = {  # with many languages, and with one
    "three manuals": ("apache-manual", "debian-reference", "installation-guide"),
    "python-doc": ("python-doc",),
}
_COMMIT_PAGES = 5_000
_ALPHABETS = {
    "zh": "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也",
    "ja": "のにはをたがでてとしれさあるいるも日本人大学生会社",
    "ko": "이다의가을는에하고한지도로서기자사대",
    "ar": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "hi": "अआइईउऊएऐओऔकखगघचछजझटठडढतथदधनपफबभमयरलवशषसह",
    "ru": "абвгдежзийклмнопрстуфхцчшщъыьэюя",
}


def build(root: Path, pages: int, hosts: int = HOSTS) -> Workspace:
    """Generate the tables of a workspace; texts are random words."""
    workspace = Workspace.create(str(root))
    claim = workspace.claim("bench")
    generator = random.Random(5)
    words = {name: _vocabulary(name, generator) for name in COLLECTIONS}
    for start in range(0, pages, _COMMIT_PAGES):
        buffers = Buffers()
        for number in range(start, min(start + _COMMIT_PAGES, pages)):
            _add_page(buffers, workspace, number, (pages, hosts), words, generator)
        claim.commit(claim.next_folder(), buffers.mapping())
    claim.release()
    return workspace


def _vocabulary(name: str, generator: random.Random) -> list[str]:
    letters = _ALPHABETS.get(name, "abcdefghijklmnopqrstuvwxyz")
    return ["".join(generator.choices(letters, k=generator.randint(2, 9))) for _ in range(3_000)]


def _add_page(
    buffers: Buffers,
    workspace: Workspace,
    number: int,
    size: tuple[int, int],
    words: dict[str, list[str]],
    generator: random.Random,
) -> None:
    pages, hosts = size
    name = COLLECTIONS[number % len(COLLECTIONS)]
    origin = f"https://www.site{number % hosts}.example"
    url = identify(workspace, f"{origin}/{name}/section/article-{number}.html")
    lines = (" ".join(generator.choices(words[name], k=TEXT_CHARACTERS // 60)) for _ in range(8))
    text = f"{number} " + "\n".join(lines) + " <&>"
    numbers = ((number * 7 + place) % pages for place in range(LINKS))
    targets = (f"{origin}/{name}/other-{other}.html?a=1&b=2" for other in numbers)
    page = Page(
        title=text[:40],
        headline=text[:40],
        text=text + "\nmenu",
        main_text=text,
        language=name,
        charset="utf-8",
        text_digest=text_digest(text),
        size=4 * len(text),
        links=[
            Link(target, text[:20], "", LinkKind.A, place) for place, target in enumerate(targets)
        ],
    )
    at_ms = START_MS + number % DAYS * DAY_MS + number
    for visited_ms in (at_ms, at_ms + DAY_MS // 2):
        visit = make_visit(url, at=visited_ms, collection=name)
        visit.content_type, visit.content_length = "text/html", page.size
        visit.changed = visited_ms == at_ms
        visit.record_id = f"<urn:uuid:00000000-0000-4000-8000-{number:012d}>"
        buffers.add_visit(visit)
    row = url_row(url, UrlState.VISITED)
    row.collection = name
    buffers.add_url(row)
    buffers.add_page(visit, page)
    buffers.links.add_links(visit, page.links)


def run(folder: Path, *words: str, limit_s: float = 1800.0) -> tuple[float, float, float]:
    """Return CPU seconds, wall seconds and peak MB of a command in a new process."""
    output = folder / "output"
    command = [*lycosa(folder)[:3], *words]
    usage = measure(command, output=output, limit_s=limit_s)
    if usage.exit_code:
        raise SystemExit(output.read_text())
    return usage.cpu_s, usage.wall_s, usage.peak_rss_mb


def rank_sites(folder: Path) -> list[tuple[str, ...]]:
    """Return a row for each of `RANKED`: pages, CPU ms per page, learned tables."""
    rows: list[tuple[str, ...]] = []
    for target, names in RANKED.items():
        workspace = folder / target / "workspace"
        workspace.parent.mkdir()
        with serve_sites(tuple(site for site in create_sites() if site.name in names)) as served:
            words = COMMANDS["lycosa"](served.seeds(), workspace.parent)[1:]
            seconds = [run(folder, *words)[0]]
        seconds += [run(folder, "-w", str(workspace), "rank")[0] for _ in range(2)]
        result = newest(Workspace.open(str(workspace)))
        assert result is not None
        crawl, first, second = (1000 * each / result[0].pages for each in seconds)
        cells = (f"{each:.2f}" for each in (crawl, first, second, first / crawl))
        rows.append((target, str(result[0].pages), str(result[0].translations), *cells))
    return rows


def validate(folder: Path) -> int:
    """Validate all XML files; return the number of documents in them."""
    schema = etree.XMLSchema(etree.parse(str(SCHEMA)))
    count = 0
    for path in sorted(folder.rglob("*.xml")):
        tree = etree.parse(str(path))
        schema.assertValid(tree)
        count += len(tree.getroot())
    return count


def main() -> None:
    options = arguments(
        __doc__,
        pages=100_000,
        kinds="xml,jsonl,parquet,text",
        rank=(False, "measure `lycosa rank` alone"),
    ).parse_args()
    with tempfile.TemporaryDirectory(prefix="lycosa-bench-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        if options.rank:
            header = ("CPU ms per page", "pages", "tables", "crawl", "rank", "again", "to crawl")
            rows = rank_sites(folder)
            report(options, "Ranks", table(header, rows), rows)
            return
        root = build(folder / "w", options.pages).root
        site = build(folder / "site", SITE_PAGES, hosts=1).root
        (folder / "www").mkdir()
        (folder / "www" / "page.html").write_text("<title>Moths</title><p>Moths fly at night.</p>")
        server = stack.enter_context(nginx([Server("127.0.0.1", folder / "www")]))
        url = f"http://127.0.0.1:{server.port}/page.html"
        max_export_s = options.pages / MIN_PAGES_PER_CPU_S
        # "{run}" is replaced by the number of the run
        crawl = ["-w", f"{folder}/crawl{{run}}", "crawl", url, "--delay", "0", "--quiet"]
        commands = {
            "--help": (["--help"], MAX_CPU_S["--help"]),
            "crawl": (crawl, MAX_CPU_S["crawl"]),
            "site": (["-w", site, "site", "www.site0.example"], MAX_CPU_S["site"]),
        }
        for column in ("language", "host"):
            words = ["-w", root, "status", "--by", column]
            commands[f"status --by {column}"] = (words, max_export_s)
        for kind in options.kinds.split(","):
            words = ["-w", root, "export", kind, "-q", f"{folder}/{kind}{{run}}"]
            commands[f"export {kind}"] = (words, max_export_s)
        rows, figures = [], {}
        for name, (words, limit_s) in commands.items():
            usages = [
                run(folder, *(word.format(run=number) for word in words))
                for number in range(options.runs)
            ]
            cpu_s, wall_s, peak_mb = (statistics.median(each) for each in zip(*usages, strict=True))
            figures[name] = cpu_s
            cells = (f"{cpu_s:.2f}", f"{wall_s:.2f}", f"{peak_mb:.0f}", f"{cpu_s / limit_s:.2f}")
            rows.append((name, *cells))
        body = table(("command", "CPU s", "wall s", "peak MB", "CPU to the limit"), rows)
        body += f"\n\n{options.pages} pages; {validate(folder / 'xml0')} valid XML documents"
        report(options, "Commands", body, figures)


if __name__ == "__main__":
    main()
