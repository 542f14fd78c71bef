"""The template `news27` is valid, contains the listed sites, and can be crawled over TLS."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import os
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from lycosa.cli.main import app
from lycosa.commands.crawling.news27 import LANGUAGES, SITES
from lycosa.commands.crawling.news_template import news_template, seeds_of
from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import ConfigError, UsageError
from lycosa.crawl.session.planning import make_plan, read_seeds
from lycosa.crawl.session.session import SessionOptions, open_session
from lycosa.crawl.session.workspace_config import read_settings
from lycosa.crawl.state.progress import Progress
from lycosa.crawl.state.task import Job
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from tests.servers.certificates import make_certificate
from tests.servers.s3 import location, server
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.server import WebServer
from tests.servers.synthetic.simulated import SimulatedClock, SimulatedFetcher
from tests.servers.synthetic.web import Web

__all__ = ["location", "server"]

LIST = Path(os.environ.get("LYCOSA_SHARED", "/work/shared")) / "data/news27.tsv"
CONTACT = ("fetch.contact=robot@your-site.net",)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("news27") / "w"
    result = CliRunner().invoke(app, ["-w", str(folder), "init", "--template", "news27"])
    assert result.exit_code == 0, result.output
    return folder


def configuration(root: Path) -> tuple[str, str]:
    path = root / "lycosa.toml"
    return path.read_text(encoding="utf-8"), str(path)


def test_template_is_valid_and_has_one_collection_per_language(root: Path) -> None:
    plan = make_plan(*configuration(root), overrides=CONTACT)
    assert (plan.bad, plan.names, len(plan.names)) == ({}, list(LANGUAGES), 27)
    for job in plan.jobs:
        collection = job.collection
        assert job.seeds == tuple(seeds_of(collection.name))
        assert (collection.language, collection.scope, collection.recrawl) == (
            collection.name,
            "domain",
            "daily",
        )
        assert (collection.depth, collection.max_pages, collection.max_pages_per_host) == (
            None,
            None,
            None,
        )
        assert collection.delay >= 1_000
    assert len({job.collection.daily_at for job in plan.jobs}) == 27


def test_template_requires_a_contact(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"fetch\.contact"):
        make_plan(*configuration(root))


def test_existing_configuration_is_not_overwritten(root: Path) -> None:
    assert CliRunner().invoke(app, ["-w", str(root), "init", "--template", "news27"]).exit_code != 0
    assert (
        CliRunner().invoke(app, ["-w", str(root), "init", "--template", "nothing"]).exit_code != 0
    )


@pytest.mark.skipif(not LIST.exists(), reason=f"{LIST} does not exist")
def test_template_contains_every_listed_site_that_still_exists(root: Path) -> None:
    with LIST.open(encoding="utf-8") as file:
        listed = [
            row
            for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            if not row[0].startswith("#")
        ]
    expected_sites = [
        (language, name, home, note) for language, name, home, note in listed if note != "gone"
    ]
    assert sorted(expected_sites) == sorted(
        (code, *site) for code, sites in SITES.items() for site in sites
    )
    for language, name, home, note in expected_sites:
        path = root / "seeds" / f"{language}.txt"
        (line,) = (
            line
            for line in path.read_text(encoding="utf-8").splitlines()
            if f" # {name}" in f"{line} " and home in line
        )
        assert line.startswith("#") == bool(note or not home)
        assert note in line
        assert (home in read_seeds(str(path))) == (not note and home != "")


def test_seed_files_in_a_bucket_are_written_and_read(location: str) -> None:
    written = CliRunner().invoke(app, ["-w", f"{location}/", "init", "--template", "news27"])
    path = f"{location}/lycosa.toml"
    assert written.output.startswith(f"wrote {path} and 27 seed files")
    plan = make_plan(read_settings(path), path, overrides=CONTACT)
    assert {job.collection.name: list(job.seeds) for job in plan.jobs} == {
        code: seeds_of(code) for code in LANGUAGES
    }
    with pytest.raises(UsageError, match=r"seeds/xx\.txt cannot be read: No such file"):
        read_seeds(f"{location}/seeds/xx.txt")


def test_sections_of_shared_sites_are_restricted_by_deny_patterns() -> None:
    text, _ = news_template()
    collections = {collection.name: collection for collection in parse_config(text).collection}
    for name, url, admitted in (
        ("hi", "https://www.bbc.com/hindi/articles/x1", True),
        ("hi", "https://www.bbc.com/hindi", True),
        ("hi", "https://www.bbc.com/news/world", False),
        ("hi", "https://www.bbc.com/hindieland", False),
        ("en", "https://www.bbc.com/news/world", True),
        ("ur", "https://www.app.com.pk/urdu/a", True),
        ("ps", "https://www.app.com.pk/urdu/a", False),
        ("pt", "https://www.gov.br/saude/pt-br", True),
        ("kk", "https://www.gov.kz/memleket/x", True),
    ):
        denied = any(re.search(pattern, url) for pattern in collections[name].deny)
        assert denied != admitted, (name, url)


class RenamedWeb(Web):
    """The synthetic web under the names of real hosts.

    names: real host -> synthetic host.
    homes: URLs that show the home page of their host.
    """

    def __init__(self, plan: WebPlan, names: Mapping[str, str], homes: set[str]) -> None:
        super().__init__(plan)
        self._synthetic, self._homes = dict(names), homes
        self._real_names = {own.encode(): real.encode() for real, own in names.items()}
        self._pattern = re.compile(
            rb"(?<![\w.-])(?:" + b"|".join(map(re.escape, self._real_names)) + rb")(?![\w.-])"
        )

    def answer(self, url: str, request_headers: Mapping[str, str], at_ms: int) -> Answer:
        if url in self._homes:
            url = urlsplit(url)._replace(path="/", query="").geturl()
        parts = urlsplit(url)
        synthetic_url = parts._replace(
            netloc=self._synthetic.get(parts.hostname or "", ""), scheme="http"
        ).geturl()
        answer = super().answer(synthetic_url, {}, at_ms)
        body = self._renamed(answer.body)
        named = [
            (name, self._renamed(value.encode("latin-1")).decode("latin-1"))
            for name, value in answer.headers
        ]
        headers = tuple(
            (name, str(len(body)) if name == "Content-Length" else value) for name, value in named
        )
        return dataclasses.replace(answer, headers=headers, body=body)

    def _renamed(self, content: bytes) -> bytes:
        return self._pattern.sub(lambda match: self._real_names[match[0]], content)


def path_of(url: str) -> str:
    """Return path and query of a URL."""
    return "/" + url.split("/", 3)[3]


def synthetic_names(plan: WebPlan, homes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Assign a host of the synthetic web to each host of the home pages."""
    hosts = dict.fromkeys(hostname(home) for each in homes.values() for home in each)
    synthetic = [host.name for host in Web(plan).open_hosts()]
    names = dict(zip(hosts, synthetic[1:], strict=False))  # host 0 is the largest
    assert len(names) == len(hosts)
    return names


def pages_by_host(plan: WebPlan) -> dict[str, set[str]]:
    """Return the paths of all pages of the synthetic web by host."""
    pages: dict[str, set[str]] = defaultdict(set)
    for url in Web(plan).real_pages():
        pages[hostname(url)].add(path_of(url))
    return pages


def crawl(
    workspace: Workspace, config: Config, jobs: list[Job], options: SessionOptions, clock: Clock
) -> tuple[Progress, dict[str, set[str]]]:
    """Crawl until no URL is due; return the progress, and the URLs of pages by collection."""
    session = open_session(workspace, config, jobs, options, command="run", clock=clock)
    try:
        session.load()
        progress = session.worker.run()
        session.claim.release()
    finally:
        session.close()
    assert progress.ended == "finished"
    urls: dict[str, set[str]] = defaultdict(set)
    pages = LiveTables(workspace).scan("pages").select("collection", "url").collect()
    for collection, url in pages.iter_rows():
        urls[collection].add(url)
    return progress, urls


PLAN = WebPlan.calm(seed=4, hosts=170, pages=900, latency_ms=50.0)


def test_all_collections_are_crawled_completely_and_stay_on_their_sites(
    root: Path, tmp_path: Path
) -> None:
    """All 27 collections with the politeness of the template, on a synthetic web."""
    text, source = configuration(root)
    plan = make_plan(text, source, overrides=CONTACT)
    homes = {job.collection.name: [normalise(seed) for seed in job.seeds] for job in plan.jobs}
    names = synthetic_names(PLAN, homes)
    web = RenamedWeb(PLAN, names, {home for each in homes.values() for home in each})
    clock = SimulatedClock(PLAN.epoch_ms + 1_000)
    fetcher = SimulatedFetcher(web, clock, plan.config.fetch)
    workspace = Workspace.create(str(tmp_path / "w"))
    options = SessionOptions(fetcher=fetcher)
    _, urls = crawl(workspace, plan.config, list(plan.jobs), options, clock)
    pages = pages_by_host(PLAN)
    for job in plan.jobs:
        name, deny = job.collection.name, job.collection.deny
        expected = set(homes[name])
        for host in map(hostname, homes[name]):
            for scheme in ("http", "https"):
                on_host = {f"{scheme}://{host}{path}" for path in pages[names[host]]}
                expected |= {
                    url for url in on_host if not any(re.search(pattern, url) for pattern in deny)
                }
        assert urls[name] <= expected, f"{name} has pages of other sites"
        for host in map(hostname, homes[name]):
            expected_paths = {
                path
                for path in pages[names[host]]
                if f"https://{host}{path}" in expected or f"http://{host}{path}" in expected
            }
            paths = {
                path_of(url)
                for url in urls[name]
                if hostname(url) == host and url not in homes[name]
            }
            assert expected_paths - {"/"} <= paths, f"{name} does not have all pages of {host}"
    arrivals: dict[str, list[int]] = defaultdict(list)
    for entry in fetcher.log:
        arrivals[entry.host].append(entry.arrived_at_ms)
    assert set(arrivals) <= set(names)
    assert all(
        later - before >= 2_000
        for times in arrivals.values()
        for before, later in itertools.pairwise(sorted(times)[1:])
    )


SMALL = WebPlan.calm(seed=5, hosts=170, pages=400, latency_ms=1.0)


class SecureWeb(RenamedWeb):
    """A web over https; records Accept-Language values by host."""

    def __init__(self, plan: WebPlan, names: Mapping[str, str], homes: set[str]) -> None:
        super().__init__(plan, names, homes)
        self.languages: dict[str, set[str]] = defaultdict(set)

    def answer(self, url: str, request_headers: Mapping[str, str], at_ms: int) -> Answer:
        parts = urlsplit(url)
        if parts.path != "/robots.txt":
            self.languages[parts.hostname or ""].add(request_headers.get("accept-language", ""))
        answer = super().answer(parts._replace(scheme="https").geturl(), request_headers, at_ms)
        body = answer.body.replace(b"http://", b"https://")
        headers = tuple(
            (name, str(len(body)) if name == "Content-Length" else value)
            for name, value in answer.headers
        )
        return dataclasses.replace(answer, headers=headers, body=body)


@pytest.mark.parametrize(
    ("codes", "plan"),
    [
        pytest.param(["lo", "bo", "ps"], SMALL, id="three"),
        pytest.param(list(LANGUAGES), PLAN, id="all", marks=pytest.mark.prove),
    ],
)
def test_collections_are_crawled_completely_over_https(
    tmp_path: Path, root: Path, codes: list[str], plan: WebPlan
) -> None:
    every = make_plan(*configuration(root), overrides=CONTACT)
    jobs = [job for job in every.jobs if job.collection.name in codes]
    homes = {
        job.collection.name: [re.sub("^http:", "https:", normalise(seed)) for seed in job.seeds]
        for job in jobs
    }
    names = synthetic_names(plan, homes)
    web = SecureWeb(plan, names, {home for each in homes.values() for home in each})
    authority = make_certificate(tmp_path, "authority", "")
    certificate = make_certificate(
        tmp_path, "server", ",".join(f"DNS:{host}" for host in names), authority
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    workspace = Workspace.create(str(tmp_path / "w"))
    with WebServer(web, pace=0.0, tls=context) as server:
        # Real hosts must not be requested: one entry maps all hosts to the server, and only the
        # authority of its certificate is trusted.
        assert server.connect_to[-1] == f"::{server.addresses[0]}:{server.port}"
        config = every.config.model_copy(
            update={
                "fetch": every.config.fetch.model_copy(
                    update={
                        "connect_to": server.connect_to[-1:],
                        "ca_file": str(authority.certificate),
                    }
                ),
                "crawl": every.config.crawl.model_copy(update={"patience": 2_000}),
            }
        )
        fast = {"delay": 0, "courtesy_factor": 0.0, "recrawl": "never"}
        fast_jobs = [
            dataclasses.replace(
                job,
                collection=job.collection.model_copy(update=fast),
                seeds=tuple(homes[job.collection.name]),
            )
            for job in jobs
        ]
        progress, urls = crawl(workspace, config, fast_jobs, SessionOptions(), SystemClock())
    assert not progress.errors, dict(progress.errors)
    pages = pages_by_host(plan)
    for job in jobs:
        name, deny = job.collection.name, job.collection.deny
        for home in homes[name]:
            host = hostname(home)
            on_host = {f"https://{host}{path}" for path in pages[names[host]] if path != "/"}
            expected = {
                url for url in on_host if not any(re.search(pattern, url) for pattern in deny)
            }
            assert expected <= urls[name], f"{name} does not have all pages of {host}"
            assert home in urls[name]
        assert {hostname(url) for url in urls[name]} <= {
            host
            for host in names
            if any(_share_domain(host, hostname(home)) for home in homes[name])
        }
    languages = {job.collection.name: job.collection.accept_language for job in jobs}
    for name in homes:
        assert all(languages[name] in web.languages[hostname(home)] for home in homes[name])
    assert set().union(*web.languages.values()) <= set(languages.values())
    assert verify(workspace, deep=True).ok


def _share_domain(host: str, other: str) -> bool:
    """Return whether the last two labels of two hosts are equal."""
    return host.split(".")[-2:] == other.split(".")[-2:]
