"""Tests of the nginx server (log, startup errors), and of the creation of the six sites."""

from __future__ import annotations

import http.client
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pycurl
import pytest

from tests.servers import sites
from tests.servers.certificates import make_certificate
from tests.servers.nginx import Nginx, Server, configuration, free_port, nginx
from tests.servers.sites import NAMES, SitesMissing, create_sites, require_sites, site_seeds
from tests.waiting import until


def _get(server: Nginx, address: str, path: str, agent: str = "test") -> int:
    connection = http.client.HTTPConnection(address, server.port, timeout=10)
    connection.request("GET", path, headers={"User-Agent": agent})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def test_serves_each_root_on_its_own_address_and_logs_every_request(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    before_ms = time.time_ns() // 1_000_000
    with nginx(
        [Server("127.0.0.1", tmp_path / "one"), Server("127.0.0.2", tmp_path / "two")]
    ) as server:
        assert _get(server, "127.0.0.1", "/one.txt") == 200
        server.settle()
        mark = server.mark()
        assert _get(server, "127.0.0.2", "/two.txt?q=%22", agent='a "quoted" ä') == 200
        assert _get(server, "127.0.0.2", "/one.txt") == 404
        until(lambda: len(server.requests()) >= 3, 10)  # logged after the response is sent
        first, second = server.requests(mark)
        assert (len(server.requests()), (first.url, first.status, first.content_type)) == (
            3,
            (
                f"http://127.0.0.2:{server.port}/two.txt?q=%22",
                200,
                "text/plain",
            ),
        )
        assert (first.method, first.server, first.sent_bytes) == ("GET", "127.0.0.2", 3)
        assert first.agent.startswith('a "quoted"')
        assert (second.uri, second.status) == ("/one.txt", 404)
        assert before_ms - 1 <= first.at <= second.at <= time.time_ns() // 1_000_000 + 1
        directory, pid = server.directory, server.pid
    assert not directory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_certificate_enables_tls_and_http2(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>x")
    certificate = make_certificate(tmp_path, "server", "IP:127.0.0.1")
    with nginx([Server("127.0.0.1", tmp_path, certificate=certificate)]) as server:
        curl = pycurl.Curl()
        curl.setopt(pycurl.URL, f"https://127.0.0.1:{server.port}/page.html")
        curl.setopt(pycurl.CAINFO, str(certificate.certificate))
        assert curl.perform_rs() == "<p>x"
        assert curl.getinfo(pycurl.INFO_HTTP_VERSION) == pycurl.CURL_HTTP_VERSION_2_0
        until(server.requests, 10)
        assert [line.url for line in server.requests()] == [
            f"https://127.0.0.1:{server.port}/page.html"
        ]
        curl.close()


def test_error_for_an_invalid_configuration_contains_the_log(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="no_such_directive"),
        nginx([Server("127.0.0.1", tmp_path, extra="no_such_directive on;")]),
    ):
        pass


def test_a_free_port_is_free_on_every_address(tmp_path: Path) -> None:
    with nginx([Server("127.0.0.3", tmp_path)]) as server:
        assert free_port(["127.0.0.1", "127.0.0.3"]) != server.port


def test_workers_run_as_the_current_user(tmp_path: Path) -> None:
    text = configuration([Server("127.0.0.1", tmp_path)], tmp_path, 1)
    assert text.startswith("user root;") is (os.geteuid() == 0)
    assert text.count("_temp_path") == 5


SCRIPT = f"""echo run >> "$1.runs"; sleep 0.2; for name in {" ".join(NAMES)}; do mkdir -p "$1/$name"; done; touch "$1/nginx.conf" """


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has its own cache of the sites and its own (missing) script."""
    monkeypatch.setattr(sites, "CACHE", tmp_path / "cache" / "sites")
    monkeypatch.setattr(sites, "SCRIPT", tmp_path / "make_sites.sh")
    return tmp_path


def test_concurrent_callers_create_the_sites_once(folder: Path) -> None:
    (folder / "make_sites.sh").write_text(SCRIPT)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: create_sites(), range(4)))
    assert (folder / "cache" / "sites.runs").read_text() == "run\n"
    assert all(result == results[0] for result in results)
    assert [site.address for site in results[0]] == [
        f"127.0.1.{number}" for number in range(10, 16)
    ]


def test_missing_script_skips_tests_with_a_reason(folder: Path) -> None:
    with pytest.raises(SitesMissing, match=r"make_sites\.sh"):
        create_sites()
    with pytest.raises(pytest.skip.Exception, match=r"make_sites\.sh"):
        require_sites()


def test_error_of_a_failed_script_contains_its_output(folder: Path) -> None:
    (folder / "make_sites.sh").write_text("echo no network >&2; exit 7")
    with pytest.raises(RuntimeError, match="no network"):
        create_sites()


def test_debian_reference_has_one_seed_per_language(folder: Path) -> None:
    (folder / "make_sites.sh").write_text(SCRIPT)
    by_name = {site.name: site for site in create_sites()}
    for language in ("en", "de"):
        (by_name["debian-reference"].root / f"index.{language}.html").touch()
    assert site_seeds(by_name["debian-reference"], "http://h") == [
        "http://h/",
        "http://h/index.de.html",
        "http://h/index.en.html",
    ]
    assert site_seeds(by_name["python-doc"], "http://h") == ["http://h/"]
