"""Rivals that are built from sources: left out with a reason where they cannot be, built again when
their sources change.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.crawl import parse_arguments, those_present
from bench.rivals import build
from bench.rivals.build import RivalAbsent, built

SOURCE = 'package main\n\nfunc main() { println("%s") }\n'


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for colly's sources, and a cache of its own."""
    monkeypatch.setattr(build, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    folder = tmp_path / "sources" / "colly"
    folder.mkdir(parents=True)
    (folder / "main.go").write_text(SOURCE % "one")
    return folder


def test_a_rival_without_its_compiler_is_left_out_by_name(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(sources))
    with pytest.raises(RivalAbsent, match="go is not installed"):
        built("colly")
    assert those_present(["links", "colly"], tls=False) == ["links"]
    assert (
        "colly is left out: colly cannot be built: go is not installed" in capsys.readouterr().err
    )
    with pytest.raises(RivalAbsent, match="nothing is left"):
        those_present(["colly"], tls=False)


def test_a_failed_build_says_what_the_compiler_said(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = sources.parent / "go"
    compiler.write_text("#!/bin/sh\necho no such module >&2; exit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sources.parent}:/bin:/usr/bin")
    with pytest.raises(RivalAbsent, match=r"ended with 3:\nno such module"):
        built("colly")


def test_a_program_is_built_once_for_each_state_of_its_sources(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = sources.parent / "go"
    # go build -o TARGET .
    compiler.write_text(
        f"#!/bin/sh\necho run >> {sources.parent}/runs; mkdir -p $(dirname $3); cp main.go $3\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sources.parent}:/bin:/usr/bin")
    first = built("colly")
    assert built("colly") == first
    assert first.read_text() == SOURCE % "one"
    (sources / "main.go").write_text(SOURCE % "two")
    assert built("colly").read_text() == SOURCE % "two"
    assert not first.exists()
    assert (sources.parent / "runs").read_text() == "run\n" * 2


def test_scrapy_over_http2_needs_tls(capsys: pytest.CaptureFixture[str]) -> None:
    options = parse_arguments(["--rivals", "scrapy,scrapy-http2", "--without-lycosa"])
    assert those_present(options.contenders, tls=False) == ["scrapy"]
    assert (
        "scrapy-http2 is left out: Scrapy speaks HTTP/2 over TLS alone" in capsys.readouterr().err
    )
    assert those_present(options.contenders, tls=True) == ["scrapy", "scrapy-http2"]


def test_the_sources_of_every_built_rival_pin_what_they_use() -> None:
    assert "github.com/gocolly/colly/v2 v2" in (build.SOURCES / "colly" / "go.sum").read_text()
    assert 'name = "spider"' in (build.SOURCES / "spider" / "Cargo.lock").read_text()
