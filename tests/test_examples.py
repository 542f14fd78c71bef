"""Every example runs on the demo sites and gives correct results."""

from __future__ import annotations

import ast
import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from warcio.archiveiterator import ArchiveIterator

from lycosa import Workspace
from lycosa.commands.demo.demo import DemoWeb
from tests.servers.demo import web as web
from tests.servers.local_http import QuietHandler, serving_handler
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
QUESTION = "how do wolf spider mothers carry their young"
PAGES = 18
"""Number of pages that a crawl of the site `wolfspiders` finds."""
NEWS = {
    "en": ("wolfspiders", "spiders"),
    "de": ("harbour", "Hafen"),
    "fr": ("boulangerie", "pain"),
    "es": ("biblioteca", "libros"),
    "ru": ("muzey", "паровозы"),
}
"""Language -> demo site, a word on its pages."""
QUICK = """
[crawl]
patience = "0s"
[[collection]]
name = "default"
delay = "0s"
courtesy_factor = 0
"""
"""Settings of a workspace that an example creates: no delays on loopback."""
SECRET = b"secret of the test"


@pytest.fixture(scope="module")
def site(web: DemoWeb) -> str:
    return web.origins["wolfspiders"] + "/"


def _command(script: str, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / script), *arguments]


def _settings(folder: Path, name: str, text: str = QUICK) -> Path:
    (folder / name).mkdir()
    (folder / name / "lycosa.toml").write_text(text)
    return folder / name


def _run(folder: Path, script: str, *arguments: str) -> str:
    """Run an example to its end in a folder; return what it prints."""
    done = subprocess.run(
        _command(script, *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_is_short_and_shows_its_usage(script: str, tmp_path: Path) -> None:
    source = (EXAMPLES / script).read_text(encoding="utf-8")
    assert len(source.splitlines()) < 60
    tree = ast.parse(source)
    assert f"\n    python {script} https://" in (ast.get_docstring(tree) or "")
    modules = {
        each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module
    }
    assert not [name for name in modules if name.startswith("lycosa.")]
    without_url = subprocess.run(_command(script), cwd=tmp_path, capture_output=True, text=True)
    assert (without_url.returncode, without_url.stdout) == (1, "")
    assert without_url.stderr.startswith(f"usage: {script} URL")
    assert not list(tmp_path.iterdir())


def test_the_readme_of_the_examples_lists_all() -> None:
    links = re.findall(r"^\| \[[^\]]+\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(links) == sorted([*SCRIPTS, "news", "plugin"])


def test_site_search_prints_hits_as_json(site: str, tmp_path: Path) -> None:
    workspace = _settings(tmp_path, "site-search")
    answer = json.loads(_run(tmp_path, "site_search.py", site, "spider", "mother"))
    first = answer["hits"][0]
    assert (first["url"], first["language"]) == (f"{site}life/mothers.html", "en")
    assert re.search(r"The <b>mother</b> spins a disc of silk", first["snippet"])
    assert answer["total"] == Workspace(workspace).search("spider mother").total > 1
    assert sum(answer["languages"].values()) == answer["total"]
    assert Workspace(workspace).status().pages == PAGES


def test_archive_site_writes_a_valid_wacz(site: str, tmp_path: Path) -> None:
    _settings(tmp_path, "archive")
    printed = _run(tmp_path, "archive_site.py", site)
    assert "127.0.2.1.wacz: 18 pages, 22 captures\narchive complete\n" in printed
    with zipfile.ZipFile(tmp_path / "127.0.2.1.wacz") as wacz:
        package = json.loads(wacz.read("datapackage.json"))
        for resource in package["resources"]:
            digest = hashlib.sha256(wacz.read(resource["path"])).hexdigest()
            assert resource["hash"] == f"sha256:{digest}"
        pages = [json.loads(line) for line in wacz.read("pages/pages.jsonl").splitlines()[1:]]
        types: dict[str, str] = {}
        for name in wacz.namelist():
            if name.endswith(".warc.gz"):
                with wacz.open(name) as stream:
                    types |= _responses(stream)
    assert len(pages) == PAGES
    assert {page["url"] for page in pages} <= types.keys()
    assert types[f"{site}style.css"] == "text/css"


def _responses(stream: Any) -> dict[str, str]:
    """Return URL -> media type of each complete response in a WARC file."""
    types = {}
    for record in ArchiveIterator(stream, check_digests="raise"):
        if record.rec_type == "response":
            assert record.content_stream().read() is not None
            media_type = record.http_headers.get_header("Content-Type")
            types[record.rec_headers.get_header("WARC-Target-URI")] = media_type
    return types


def test_hunt_streams_results(site: str, tmp_path: Path) -> None:
    workspace = _settings(tmp_path, "hunts")
    *hits, summary = map(
        json.loads, _run(tmp_path, "hunt_stream.py", site, *QUESTION.split()).splitlines()
    )
    assert f"{site}life/mothers.html" in [hit["url"] for hit in hits]
    assert all(0.45 <= hit["score"] <= 1 for hit in hits)
    assert {hit["url"] for hit in hits} >= set(summary["best"]) > set()
    assert Workspace(workspace).status().pages == summary["pages"]


def test_monitor_posts_to_a_webhook(site: str, tmp_path: Path) -> None:
    received: list[dict[str, Any]] = []
    restored = threading.Event()

    class Page(QuietHandler):
        def do_GET(self) -> None:
            self.answer(200, b"Welcome" if restored.is_set() else b"Out of order")

    class Webhook(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            identity, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
            signed = hmac.new(SECRET, f"{identity}.{at}.".encode() + body, hashlib.sha256)
            signature = f"v1,{base64.b64encode(signed.digest()).decode()}"
            assert self.headers["webhook-signature"] == signature
            received.append(json.loads(body))
            self.answer(204)

    with serving_handler(Page) as page, serving_handler(Webhook) as webhook:
        private = f'[notify]\nprivate = ["{webhook.removeprefix("http://")}"]\n'
        _settings(tmp_path, "monitoring", private)
        process = subprocess.Popen(
            _command("monitor_webhook.py", f"{page}/", f"{webhook}/x", "Welcome", "1s"),
            cwd=tmp_path,
            env=os.environ | {"LYCOSA_WEBHOOK_SECRET": SECRET.decode()},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            until(lambda: received)
            restored.set()
            until(lambda: len(received) > 1)
        finally:
            process.send_signal(signal.SIGINT)
            printed, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert [(each["kind"], each["url"]) for each in received] == [
        ("down", f"{page}/"),
        ("up", f"{page}/"),
    ]
    assert received[0]["facts"]["cause"] == "content"
    assert printed.endswith(f"\n{page}/: up, 1 outages\n")


def test_duckdb_counts_the_pages_of_the_workspace(site: str, tmp_path: Path) -> None:
    workspace = Workspace(_settings(tmp_path, "analysis"))
    printed = _run(tmp_path, "parquet_duckdb.py", site)
    assert printed.startswith("18 pages, 2 files\n")
    stored = workspace.sql(
        "SELECT language, COUNT(*) AS n FROM pages GROUP BY language ORDER BY n DESC"
    ).rows()
    files = f"{tmp_path}/pages/parquet/*/*/*.parquet"
    counted = duckdb.execute(
        f"SELECT language, count(*) AS n FROM '{files}' GROUP BY language ORDER BY n DESC"
    )
    assert counted.fetchall() == stored == [("en", 17), ("de", 1)]
    tables = re.findall(r"^│ +(\S+) +│ +(\d+) │", printed, re.M)
    assert tables[:2] == [("en", "17"), ("de", "1")]
    assert tables[2] == (site, str(len(workspace.sites.links(to=site))))


def test_extract_fields_writes_items(site: str, tmp_path: Path) -> None:
    _settings(tmp_path, "extracted")
    printed = _run(tmp_path, "extract_fields.py", site).splitlines()
    assert printed[0] == f"{PAGES} items, 0 without a title"
    assert len(printed) == 6
    assert printed[1:] == sorted(printed[1:], key=lambda line: line[:10], reverse=True)
    lines = (tmp_path / "articles.jsonl").read_text(encoding="utf-8").splitlines()
    items = {item["url"]: item for item in map(json.loads, lines)}
    arctosa = items[f"{site}species/arctosa.html"]
    assert arctosa["title"] == "Arctosa perita, who cannot be seen"
    assert arctosa["published"] == "2026-04-13T00:00:00.000Z"
    assert arctosa["lead"].startswith("Walk across a sandy heath")
    assert arctosa["links"] == [f"{site}life/burrows.html"]


def test_retrieval_prints_passages_with_sources(site: str, tmp_path: Path) -> None:
    _settings(tmp_path, "retrieval")
    prompt = _run(tmp_path, "retrieval.py", site, *QUESTION.split())
    source = r"^\[(\d)\] (.+)\n(http.+)\n([\s\S]+?)(?=\n\n\[\d\]|\n\nQuestion:)"
    sources = re.findall(source, prompt, re.M)
    assert [number for number, *_ in sources] == ["1", "2", "3", "4"]
    assert sources[0][2] == f"{site}life/mothers.html"
    assert "carries the egg sac behind her" in sources[0][3]
    assert prompt.endswith(f"Question: {QUESTION}\n")
    markdown = list((tmp_path / "markdown").rglob("*.md"))
    assert len(markdown) == PAGES
    heads = [path.read_text(encoding="utf-8").split("\n---\n")[0] for path in markdown]
    for _, title, url, _ in sources:
        (head,) = (head for head in heads if f'url: "{url}"' in head.splitlines())
        declared = re.search(r'^title: "(.+)"$', head, re.M)  # without the name of the site
        assert declared is not None
        assert title.startswith(declared[1])
    chunks = (tmp_path / "chunks" / "chunks-000001.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in chunks.splitlines()]
    assert {row["url"] for row in rows} >= {url for *_, url, _ in sources}
    assert {row["operation"] for row in rows} == {"added"}


def test_langchain_loads_and_retrieves(site: str, tmp_path: Path) -> None:
    _settings(tmp_path, "langchain")
    first, *results = _run(tmp_path, "langchain_retriever.py", site, *QUESTION.split()).splitlines()
    assert first == f"{PAGES} documents"
    assert len(results) == 4
    assert re.fullmatch(rf"{re.escape(site)}life/mothers\.html \([1-9]\d+ characters\)", results[0])


def test_llamaindex_reads_and_splits(site: str, tmp_path: Path) -> None:
    _settings(tmp_path, "llamaindex")
    first, *nodes = _run(tmp_path, "llamaindex_reader.py", site).splitlines()
    documents, parts = map(int, re.findall(r"\d+", first))
    assert (documents, parts >= PAGES, len(nodes)) == (PAGES, True, 5)
    assert all(line.startswith(site) for line in nodes)


def test_news_template_indexes_five_languages(web: DemoWeb, tmp_path: Path) -> None:
    folder = tmp_path / "news"
    shutil.copytree(EXAMPLES / "news", folder)
    assert {path.stem for path in (folder / "seeds").iterdir()} == NEWS.keys()
    for language, (name, _) in NEWS.items():
        (folder / "seeds" / f"{language}.txt").write_text(web.origins[name] + "/\n")
    settings = (
        "collection.delay=0s",
        "collection.courtesy_factor=0",
        "crawl.commit_interval=1s",
        "index.interval=1s",
    )
    quick = [word for each in settings for word in ("--set", each)]
    process = subprocess.Popen(
        [sys.executable, "-m", "lycosa", "-w", "news", *quick, "run"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    workspace = Workspace(folder)
    try:
        until(lambda: (folder / "workspace.json").exists())
        until(lambda: _has_news(workspace))
    finally:
        process.terminate()
        _, messages = process.communicate(timeout=30)
    assert process.returncode == 0, messages
    for language, (name, word) in NEWS.items():
        hits = workspace.search(word, collection=language, language=language)
        assert hits.total > 1, language
        assert {f"http://{hit.host}" for hit in hits} <= {web.origins[name].rpartition(":")[0]}
    assert {each.name for each in workspace.collections.list()} == NEWS.keys()


def _has_news(workspace: Workspace) -> bool:
    return all(
        workspace.search(word, collection=name).total > 1 for name, (_, word) in NEWS.items()
    )
