"""Export to WACZ: what the specification asks for, point by point, and every line of the index
resolved in the file itself.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator

from lycosa.archive.import_formats import read_captures
from lycosa.commands.crawling.import_archives import ImportOptions, import_files
from lycosa.config.reading import parse_config
from lycosa.export.archives import wacz as export_module
from lycosa.export.archives.wacz import WaczReport, export_wacz
from lycosa.export.archives.warc import WarcSelection
from lycosa.store.workspace import Workspace
from lycosa.url.site_name import site_name
from tests.archive.foreign_files import ANSWERS, HOST, Answer, html, warc

PAGES = {f"{HOST}/": "Home", f"{HOST}/eyes": "Compound eyes", f"{HOST}/wings": "Wings"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("wacz")
    path = root / "a.warc.gz"
    path.write_bytes(
        warc((*ANSWERS, Answer("http://b.example/ü", html("Ümlaut & <more>"))), gzipped=True)
    )
    import_files(
        str(root / "w"), parse_config(""), "default", [str(path)], ImportOptions(index=False)
    )
    return Workspace.open(str(root / "w"))


def export(
    workspace: Workspace, folder: Path, *, chosen: WarcSelection | None = None, name: str = "x.wacz"
) -> tuple[WaczReport, Path]:
    report = export_wacz(workspace, folder / name, chosen)
    assert report.path is not None
    return report, report.path


def test_the_package_is_as_specified(workspace: Workspace, tmp_path: Path) -> None:
    report, path = export(workspace, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["x.wacz"]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        infos = {info.filename: info for info in archive.infolist()}
        package = json.loads(archive.read("datapackage.json"))
        assert (package["profile"], package["wacz_version"]) == ("data-package", "1.1.1")
        assert package["mainPageUrl"] in PAGES or package["mainPageUrl"].startswith(
            "http://b.example/"
        )
        listed = {resource["path"]: resource for resource in package["resources"]}
        assert set(infos) - {"datapackage.json", "datapackage-digest.json"} == set(listed)
        for name, resource in listed.items():
            content = archive.read(name)
            assert resource["bytes"] == len(content)
            assert resource["hash"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
            assert resource["name"] == name.rpartition("/")[2]
            if name.startswith(("archive/", "indexes/")):
                # players read ranges of them
                assert infos[name].compress_type == zipfile.ZIP_STORED
        digest = json.loads(archive.read("datapackage-digest.json"))
        assert digest == {
            "path": "datapackage.json",
            "hash": f"sha256:{hashlib.sha256(archive.read('datapackage.json')).hexdigest()}",
        }
        head, *pages = map(json.loads, archive.read("pages/pages.jsonl").splitlines())
        assert head["format"] == "json-pages-1.0"
        assert {page["url"]: page["title"] for page in pages} == {
            **PAGES,
            "http://b.example/%C3%BC": "Ümlaut & <more>",
        }
        assert {page["ts"] for page in pages} == {"2026-11-21T10:00:00Z"}
        assert len({page["id"] for page in pages}) == len(pages) == report.pages


def test_every_line_of_the_index_leads_to_its_record(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "BLOCK_LINES", 2)
    report, path = export(workspace, tmp_path)
    with zipfile.ZipFile(path) as archive:
        meta, *blocks = archive.read("indexes/index.idx").decode().splitlines()
        assert json.loads(meta.partition("!meta 0 ")[2]) == {
            "format": "cdxj-gzip-1.0",
            "filename": "index.cdx.gz",
        }
        compressed = archive.read("indexes/index.cdx.gz")
        lines: list[str] = []
        for block in blocks:
            key, stamp, text = block.split(" ", 2)
            fields = json.loads(text)
            member = compressed[fields["offset"] : fields["offset"] + fields["length"]]
            assert fields["digest"] == f"sha256:{hashlib.sha256(member).hexdigest()}"
            results = gzip.decompress(member).decode().splitlines()
            assert results[0].startswith(f"{key} {stamp} ")
            lines += results
        assert lines == sorted(lines)
        assert len(lines) == report.captures == 6
        for line in lines:
            fields = json.loads(line.split(" ", 2)[2])
            file = archive.read(f"archive/{fields['filename']}")
            record = file[int(fields["offset"]) : int(fields["offset"]) + int(fields["length"])]
            (found_record,) = ArchiveIterator(io.BytesIO(record), parse_http=True)
            assert found_record.headers["WARC-Target-URI"] == fields["url"]
            assert str(found_record.http_headers.status_code) == fields["status"]


def test_the_same_captures_give_the_same_bytes(workspace: Workspace, tmp_path: Path) -> None:
    _, first = export(workspace, tmp_path, name="a.wacz")
    _, second = export(workspace, tmp_path, name="b.wacz")
    assert first.read_bytes() == second.read_bytes()
    assert export(workspace, tmp_path, name="a.wacz")[1].read_bytes() == second.read_bytes()


def test_a_selection(workspace: Workspace, tmp_path: Path) -> None:
    report, path = export(workspace, tmp_path, chosen=WarcSelection(site=site_name("b.example")))
    assert (report.captures, report.pages) == (1, 1)
    assert [each.url for each in read_captures(path, limit=1 << 20, others=Counter())] == [
        "http://b.example/%C3%BC"
    ]
    assert (
        export_wacz(
            workspace, tmp_path / "none.wacz", WarcSelection(site=site_name("c.example"))
        ).path
        is None
    )
    assert not list(tmp_path.glob("*none*"))


def test_other_programs_take_it(workspace: Workspace, tmp_path: Path) -> None:
    """py-wacz validates it. (`pip install wacz` into an environment of its own: it pins what others
    need newer.)
    """
    program = shutil.which("wacz")
    if program is None:
        pytest.skip("the program 'wacz' is not installed")
    _, path = export(workspace, tmp_path)
    output = subprocess.run(
        [program, "validate", "-f", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert output.returncode == 0, output.stdout + output.stderr


def test_the_command(workspace: Workspace, tmp_path: Path) -> None:
    call = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "-w",
        workspace.root,
        "export",
        "wacz",
        "--json",
    ]
    output = subprocess.run(
        [*call, str(tmp_path / "a.wacz")], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(output.stdout)["captures"] == 6
    assert (
        subprocess.run(
            [*call, str(tmp_path / "a.zip")], capture_output=True, timeout=60, check=False
        ).returncode
        == 2
    )
