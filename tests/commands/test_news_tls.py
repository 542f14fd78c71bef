"""The template `news27` over sockets: `fetch.connect_to` maps all its hosts to the synthetic web,
which speaks TLS under their names.
"""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lycosa.commands.crawling.news27 import LANGUAGES
from lycosa.commands.crawling.news_template import news_template
from lycosa.core.clock import SystemClock
from lycosa.crawl.session.planning import make_plan
from lycosa.crawl.session.session import open_session
from lycosa.store.tables.live import LiveTables
from lycosa.store.verify.check import verify
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise
from lycosa.url.scope import hostname
from tests.commands.test_news_template import CONTACT, PLAN, StandIn, rest
from tests.servers.certificates import make_certificate
from tests.servers.synthetic.answer import Answer
from tests.servers.synthetic.plan import WebPlan
from tests.servers.synthetic.server import WebServer
from tests.servers.synthetic.web import Web

SMALL = WebPlan.calm(seed=5, hosts=170, pages=400, latency_ms=1.0)


class SecureStandIn(StandIn):
    """It is asked by https alone, and remembers which languages each host was asked for."""

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
def test_collections_are_crawled_whole_by_https(
    tmp_path: Path, codes: list[str], plan: WebPlan
) -> None:
    text, _ = news_template(None)
    every = make_plan(text, "news27", overrides=CONTACT)
    jobs = [job for job in every.jobs if job.collection.name in codes]
    homes = {
        job.collection.name: [re.sub("^http:", "https:", normalise(seed)) for seed in job.seeds]
        for job in jobs
    }
    hosts = list(dict.fromkeys(hostname(home) for each in homes.values() for home in each))
    own = [host.name for host in Web(plan).open_hosts()]
    names = dict(zip(hosts, own[1:], strict=False))
    assert len(names) == len(hosts)
    web = SecureStandIn(plan, names, {home for each in homes.values() for home in each})
    authority = make_certificate(tmp_path, "authority", "")
    certificate = make_certificate(
        tmp_path, "server", ",".join(f"DNS:{host}" for host in hosts), authority
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    workspace = Workspace.create(str(tmp_path / "w"))
    with WebServer(web, pace=0.0, tls=context) as server:
        # The real names must never be dialled: one entry maps every host, and the certificate's
        # authority is the only one trusted.
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
        quick = {"delay": 0, "courtesy_factor": 0.0, "recrawl": "never"}
        swift = [
            dataclasses.replace(
                job,
                collection=job.collection.model_copy(update=quick),
                seeds=tuple(homes[job.collection.name]),
            )
            for job in jobs
        ]
        session = open_session(workspace, config, swift, command="run", clock=SystemClock())
        try:
            session.take_up()
            progress = session.worker.run()
            session.claim.release()
        finally:
            session.close()
    assert progress.ended == "finished"
    assert not progress.errors, dict(progress.errors)
    found: dict[str, set[str]] = defaultdict(set)
    for collection, url in (
        LiveTables(workspace).scan("pages").select("collection", "url").collect().iter_rows()
    ):
        found[collection].add(url)
    pages_of: dict[str, set[str]] = defaultdict(set)
    for url in Web(plan).real_pages():
        pages_of[hostname(url)].add(rest(url))
    for job in jobs:
        name, deny = job.collection.name, job.collection.deny
        for home in homes[name]:
            host = hostname(home)
            whole = {f"https://{host}{path}" for path in pages_of[names[host]] if path != "/"}
            wanted = {url for url in whole if not any(re.search(pattern, url) for pattern in deny)}
            assert wanted <= found[name], f"{name} has not the whole of {host}"
            assert home in found[name]
        allowed = {hostname(home) for home in homes[name]}
        assert {hostname(url) for url in found[name]} <= {
            host for host in hosts if any(host == each or _shares(host, each) for each in allowed)
        }
    outcome = {job.collection.name: job.collection.accept_language for job in jobs}
    for name in homes:
        assert all(outcome[name] in web.languages[hostname(home)] for home in homes[name])
    assert set().union(*web.languages.values()) <= set(outcome.values())
    assert verify(workspace, deep=True).ok


def _shares(host: str, other: str) -> bool:
    """Whether two hosts may be of one domain: close enough for what the template names."""
    return host.split(".")[-2:] == other.split(".")[-2:]
