"""The library, collections and the graph as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

from lxml import etree

from tests.cli.conftest import Lycosa


def test_from_a_crawl_to_a_library_and_back_to_nothing(
    lycosa: Lycosa, here: Lycosa, site: str, tmp_path: Path
) -> None:
    workspace, out = str(tmp_path / "w"), tmp_path / "out"
    assert (
        lycosa(
            "-w",
            workspace,
            "crawl",
            site,
            "--delay",
            "0",
            "--collection",
            "en",
            "--set",
            "collection.language=en",
            "-q",
        ).code
        == 0
    )
    assert lycosa("-w", workspace, "compact", "--full").code == 0
    ranked = lycosa("-w", workspace, "rank", "--json")
    assert (ranked.code, ranked.json["duplicates"]) == (0, 0)
    outcome = lycosa("-w", workspace, "export", "xml", str(out), "--json")
    assert outcome.code == 0, outcome.err
    assert (outcome.json["languages"], outcome.json["documents"]) == (1, 2)
    (path,) = (out / "xml" / "en").glob("*/*.xml")
    etree.XMLSchema(etree.parse(str(out / "xml" / "library.xsd"))).assertValid(
        etree.parse(str(path))
    )
    assert "0 new files" in lycosa("-w", workspace, "export", "xml", str(out)).out
    for kind in ("jsonl", "parquet", "text"):
        assert (
            lycosa("-w", workspace, "export", kind, str(out), "--lang", "en", "--full", "-q").code
            == 0
        )
        assert list((out / kind / "en").glob("*/*"))
    assert here("-w", workspace, "export", "xml", str(out), "--max-size", "1KiB").code == 2
    table = lycosa("-w", workspace, "status", "--by", "language", "--csv")
    assert table.out.splitlines()[1].startswith("en,2,1,")
    assert here("-w", workspace, "status", "--by", "nothing").code == 2
    assert here("-w", workspace, "status", "--csv").code == 2

    listed = json.loads(here("-w", workspace, "collection", "list", "--json").out)
    assert [(each["name"], each["language"], each["pages"]) for each in listed] == [("en", "en", 2)]
    copy = str(tmp_path / "copy")
    copied = lycosa("-w", workspace, "collection", "copy", "en", copy, "--json")
    assert copied.code == 0, copied.err
    assert copied.json["rows"]["pages"] == 2  # type: ignore[index]
    assert lycosa("-w", copy, "index").code == 0
    assert "eyes.html" in here("-w", copy, "search", "compound eye").out
    purged = lycosa("-w", workspace, "collection", "purge", "en")
    assert purged.code == 0, purged.err
    assert here("-w", workspace, "search", "compound eye").code == 1
    assert here("-w", workspace, "check", "--json").code == 0
    assert lycosa("-w", workspace, "collection", "purge", "en").code in (0, 2)
    assert here("-w", workspace, "collection", "copy", "en", str(tmp_path / "third")).code == 2
