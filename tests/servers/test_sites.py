"""Laying out the six sites: once, whatever the number of callers; a clear word where it cannot be
done.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.servers import sites
from tests.servers.sites import NAMES, SitesAbsent, lay_sites, require_sites, site_seeds

SCRIPT = f"""echo run >> "$1.runs"; sleep 0.2; for name in {" ".join(NAMES)}; do mkdir -p "$1/$name"; done; touch "$1/nginx.conf" """


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sites, "CACHE", tmp_path / "cache" / "sites")
    monkeypatch.setattr(sites, "SCRIPT", tmp_path / "make_sites.sh")
    return tmp_path


def test_callers_at_the_same_time_lay_out_once(elsewhere: Path) -> None:
    (elsewhere / "make_sites.sh").write_text(SCRIPT)
    with ThreadPoolExecutor(4) as pool:
        layouts = list(pool.map(lambda _: lay_sites(), range(4)))
    assert (elsewhere / "cache" / "sites.runs").read_text() == "run\n"
    assert all(layout == layouts[0] for layout in layouts)
    assert [site.address for site in layouts[0]] == [
        f"127.0.1.{number}" for number in range(10, 16)
    ]


def test_without_the_script_tests_are_skipped_by_reason(elsewhere: Path) -> None:
    with pytest.raises(SitesAbsent, match=r"make_sites\.sh"):
        lay_sites()
    with pytest.raises(pytest.skip.Exception, match=r"make_sites\.sh"):
        require_sites()


def test_a_script_that_fails_is_an_error(elsewhere: Path) -> None:
    (elsewhere / "make_sites.sh").write_text("echo no network >&2; exit 7")
    with pytest.raises(RuntimeError, match="no network"):
        lay_sites()


def test_seeds_of_debian_reference_are_one_for_each_language(elsewhere: Path) -> None:
    (elsewhere / "make_sites.sh").write_text(SCRIPT)
    laid = {site.name: site for site in lay_sites()}
    for language in ("en", "de"):
        (laid["debian-reference"].root / f"index.{language}.html").touch()
    assert site_seeds(laid["debian-reference"], "http://h") == [
        "http://h/",
        "http://h/index.de.html",
        "http://h/index.en.html",
    ]
    assert site_seeds(laid["python-doc"], "http://h") == ["http://h/"]
