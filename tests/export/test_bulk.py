"""Test bulk exports to a simulated cluster that fails in many ways.

After each successful export, it must have exactly the live pages.
"""

from __future__ import annotations

import base64
import io
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lycosa.core.errors import UsageError, WorkError, WorkspaceError
from lycosa.core.records import Page, UrlState
from lycosa.export.bulk import actions as bulk_actions
from lycosa.export.bulk.actions import BulkSelection, actions, document_id, domains_of
from lycosa.export.bulk.bulk import EXPORTS, BulkReport, Destination, export_bulk, export_jsonl
from lycosa.export.bulk.http import Backoff, BulkClient, authorization
from lycosa.export.bulk.targets import OpenSearch, Quickwit, Target
from lycosa.http.fields import retry_after_s
from lycosa.store.compaction.compact import compact
from lycosa.store.compaction.plan import CompactionSettings
from lycosa.store.compaction.vacuum import vacuum
from lycosa.store.exclusion.purge import exclude, purge
from lycosa.store.log.claim import Claim
from lycosa.store.tables.buffers import Buffers
from lycosa.store.tables.live import LiveTables
from lycosa.store.workspace import Workspace
from tests.servers.bulk import (
    CHUNKED,
    CUT,
    FAULTS,
    ITEMS_429,
    LOST,
    PROXY_502,
    SLOW,
    WHOLE_429,
    WRONG_COUNT,
    Cluster,
    bulk_server,
)
from tests.store.builders import START_MS, identify, make_visit, url_row

TIMEOUT_S = 0.3
HOSTS = ("www.example.org", "news.example.org", "example.com", "a.b.example.net")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(str(tmp_path / "crawl"), partitions=4)


@pytest.fixture
def claim(workspace: Workspace) -> Claim:
    return workspace.claim("w")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with bulk_server() as cluster:
        yield cluster


def put(
    workspace: Workspace, claim: Claim, numbers: range | list[int], *, round: int = 0, language: str = "en", state: str = UrlState.VISITED,
    collection: str = "default", may_index: bool = True,
) -> None:  # fmt: skip
    """Commit pages of several hosts.

    With a `state` other than visited, commit only rows of `urls`.
    """
    buffers = Buffers()
    for number in numbers:
        url = identify(
            workspace,
            f"http://{HOSTS[number % len(HOSTS)]}/{'deep' if number % 3 else 'flat'}/{number}",
        )
        visit = make_visit(url, at=START_MS + 1_000 * round + number, collection=collection)
        row = url_row(url, state, visited_at=visit.fetched_at)
        row.collection = collection
        buffers.add_url(row)
        if state == UrlState.VISITED:
            text = f"Page {number}, read {round} times.\n" + "word " * (number % 50)
            page = Page(
                title=f"“{number}” \n \u2028",
                text=text,
                main_text=text,
                language=language,
                may_index=may_index,
                headings=["a", "b"],
            )
            buffers.add_page(visit, page)
    claim.commit(claim.next_folder(), buffers.mapping())


def live(workspace: Workspace, language: str = "") -> dict[str, str]:
    """Return document id -> text of the live pages, by an independent query."""
    tables = LiveTables(workspace)
    keys = ["collection", "host_key", "url_key"]
    removed = tables.scan("urls").filter(
        pl.col("state").is_in(["gone", "excluded"]) & (pl.col("operation") == "")
    )
    rows = (
        tables.scan("pages")
        .filter("may_index")
        .join(removed, on=keys, how="anti")
        .select(*keys, "text", "language")
        .collect()
    )
    return {
        document_id(host, url, collection): text
        for collection, host, url, text, page_language in rows.iter_rows()
        if not language or page_language == language
    }


def stored_texts(cluster: Cluster) -> dict[str, str]:
    for name, document in cluster.documents.items():
        assert document["id"] == name
    return {name: document["text"] for name, document in cluster.documents.items()}


def quick_backoff(notify: Callable[[str], None] = lambda line: None, attempts: int = 8) -> Backoff:
    return Backoff(notify, attempts, wait_s=0.001, max_wait_s=0.01)


def send(
    workspace: Workspace, cluster: Cluster, *, kind: str = "opensearch", **more: Any
) -> BulkReport:
    selection = more.pop("selection", BulkSelection())
    backoff = quick_backoff(more.pop("notify", lambda line: None), more.pop("attempts", 8))
    client = BulkClient(cluster.url, backoff, TIMEOUT_S, more.pop("environment", {}))
    target: Target = (
        OpenSearch(client, "pages") if kind == "opensearch" else Quickwit(client, "pages")
    )
    try:
        return export_bulk(
            workspace, target, Destination(kind, client.url, "pages", selection), backoff, **more
        )
    finally:
        client.close()


def sync(workspace: Workspace, cluster: Cluster, **more: Any) -> BulkReport:
    """Send, and assert that the cluster then holds the live pages."""
    report = send(workspace, cluster, **more)
    assert stored_texts(cluster) == live(workspace, more.get("selection", BulkSelection()).language)
    return report


def test_the_second_export_sends_only_changes(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(40))
    first = sync(workspace, cluster)
    assert (first.documents, first.deletions, first.failed, first.from_entry) == (40, 0, 0, 0)
    document = next(iter(cluster.documents.values()))
    assert document["headings"] == ["a", "b"]
    assert document["domains"][-1] in ("org", "com", "net")
    assert cluster.mapping is not None
    assert set(document) == set(cluster.mapping["properties"])
    assert send(workspace, cluster).requests == 0
    put(workspace, claim, range(10, 15), round=1)
    put(workspace, claim, [3, 4], state=UrlState.GONE)
    second = sync(workspace, cluster)
    assert (second.documents, second.deletions, second.from_entry) == (5, 2, first.log_entry)
    put(workspace, claim, [3], round=2)  # available again
    put(workspace, claim, [5], round=2, may_index=False)
    third = sync(workspace, cluster)
    assert (third.documents, third.deletions, len(stored_texts(cluster))) == (1, 1, 38)


def test_a_url_of_two_collections_is_two_documents(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(8))
    put(workspace, claim, range(4, 12), collection="second")
    assert send(workspace, cluster).documents == 16
    put(workspace, claim, [5], state=UrlState.GONE, collection="second")
    assert sync(workspace, cluster).deletions == 1
    assert len({document["url"] for document in cluster.documents.values()}) == 12


@pytest.mark.parametrize("fault", FAULTS)
def test_export_retries_after_each_failure(
    workspace: Workspace, claim: Claim, cluster: Cluster, fault: str
) -> None:
    put(workspace, claim, range(60))
    cluster.faults.extend(["", fault, fault, fault])
    report = sync(workspace, cluster, batch_bytes=6_000)
    assert (report.documents, report.failed) == (60, 0)
    assert not cluster.faults
    low, high = {
        **dict.fromkeys((WHOLE_429, PROXY_502), (60, 60)),  # no document was indexed twice
        ITEMS_429: (61, 99),  # only rejected documents were sent again
        **dict.fromkeys((LOST, CUT, SLOW, WRONG_COUNT), (61, 10_000)),
        CHUNKED: (0, 10_000),
    }[fault]
    assert low <= cluster.sent() <= high


def test_a_delayed_request_does_not_overwrite_newer_documents(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    """A proxy may deliver an old request late."""
    put(workspace, claim, range(5))
    old = list(actions(workspace, workspace.state(), BulkSelection(), 0))
    send(workspace, cluster)
    put(workspace, claim, range(4), round=1)
    put(workspace, claim, [2], state=UrlState.GONE)
    send(workspace, cluster)
    before = dict(cluster.documents)
    client = BulkClient(cluster.url, quick_backoff(), 1.0, {})
    assert OpenSearch(client, "pages").send(old, last=True) == [None] * len(old)
    client.close()
    assert (cluster.documents, stored_texts(cluster)) == (before, live(workspace))


def test_rejected_documents_are_reported_and_do_not_block_others(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(20))
    cluster.never = set(sorted(live(workspace))[:3])
    report = send(workspace, cluster)
    assert (report.documents, report.failed) == (17, 3)
    assert {failure["id"] for failure in report.failures} == cluster.never
    assert all("mapper_parsing_exception" in failure["reason"] for failure in report.failures)
    assert send(workspace, cluster).requests == 0
    cluster.never = set()
    assert sync(workspace, cluster, again=True).documents == 20


def test_batches_are_halved_after_a_413(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(300))
    cluster.most_bytes = 80_000
    assert sync(workspace, cluster, batch_bytes=400_000).documents == 300
    assert 1 <= len([size for _, _, size in cluster.requests if size > cluster.most_bytes]) <= 3
    cluster.most_bytes = 500
    small = send(workspace, cluster, again=True)
    assert small.failed == 300
    assert "413" in small.failures[0]["reason"]


def test_an_aborted_export_stores_the_confirmed_position(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(60))
    cluster.faults.extend(["", "", *[WHOLE_429] * 50])
    messages: list[str] = []
    with pytest.raises(
        WorkError,
        match=r"stopped after 8 attempts.*429.*run the same command "
        r"again",
    ):
        send(workspace, cluster, batch_bytes=6_000, save_interval_s=0.0, notify=messages.append)
    assert len(messages) == 7
    cluster.faults.clear()
    sent_before = cluster.sent()
    assert sent_before
    again = sync(workspace, cluster, batch_bytes=6_000)
    assert again.documents <= 60 - sent_before + 1  # the last key is sent again


def test_retry_after_is_obeyed() -> None:
    slept: list[float] = []
    backoff = Backoff(lambda line: None, 4, wait_s=1.0, max_wait_s=2.0, sleep=slept.append)
    backoff.failure("busy", retry_after_s("7"))
    backoff.failure("busy")
    backoff.failure("busy")
    assert slept[0] == 7.0
    assert all(1.0 <= pause <= 2.0 for pause in slept[1:])
    with pytest.raises(WorkError):
        backoff.failure("busy")
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert 0 < retry_after_s("Fri, 31 Dec 2100 07:28:00 GMT") <= 600
    assert retry_after_s("soon") == retry_after_s(None) == 0.0


@pytest.mark.proves("consistency-purge-derived")
def test_exclusions_and_purges_are_sent_as_deletions(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(48))
    send(workspace, cluster)
    exclude(workspace, ["host:example.com"])
    assert sync(workspace, cluster).exclusions == 1
    assert "example.com" not in {document["host"] for document in cluster.documents.values()}
    purge(workspace, ["prefix:http://news.example.org/deep/", "domain:b.example.net"])
    assert sync(workspace, cluster).exclusions == 2
    assert {document["host"] for document in cluster.documents.values()} == {
        "www.example.org",
        "news.example.org",
    }
    put(workspace, claim, range(48, 60))
    sync(workspace, cluster)
    assert sum("_delete_by_query" in path for _, path, _ in cluster.requests) == 2


def test_reparsed_pages_of_gone_urls_stay_deleted(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    """`reparse` writes only rows of `pages`, not of `urls`."""
    put(workspace, claim, range(8))
    put(workspace, claim, [1], state=UrlState.GONE)
    send(workspace, cluster)
    buffers = Buffers()
    for number in (1, 2):
        url = identify(workspace, f"http://{HOSTS[number % 4]}/deep/{number}")
        buffers.add_page(make_visit(url), Page(title="read otherwise", text="read otherwise"))
    claim.commit(claim.next_folder(), buffers.mapping())
    assert sync(workspace, cluster).documents == 1


def test_a_page_that_changes_its_language_is_deleted(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(10), language="de")
    put(workspace, claim, range(10, 20), language="en")
    german = BulkSelection(language="de")
    assert send(workspace, cluster, selection=german).documents == 10
    put(workspace, claim, [4, 5], round=1, language="en")
    put(workspace, claim, [14], round=1, language="de")
    report = sync(workspace, cluster, selection=german)
    assert (report.documents, report.deletions) == (1, 2)


def test_only_pages_since_a_time_are_sent(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(10))
    put(workspace, claim, range(10, 14), round=5)
    assert send(workspace, cluster, selection=BulkSelection(since=START_MS + 5_000)).documents == 4


@pytest.mark.parametrize("seed", range(4))
def test_random_sequences_of_changes_and_failures(
    workspace: Workspace, claim: Claim, cluster: Cluster, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes, compaction and vacuum between failing exports."""
    monkeypatch.setattr(bulk_actions, "PAGES_BYTES", 20_000)
    monkeypatch.setattr(bulk_actions, "URLS_BYTES", 5_000)
    generator = random.Random(seed)
    rules = ["host:a.b.example.net", "prefix:http://www.example.org/flat/", "domain:example.com"]
    for step in range(30):
        numbers = sorted(generator.sample(range(120), 12))
        kind = generator.choice(
            ["put", "put", "put", "gone", "noindex", "merge", "exclude", "export", "export"]
        )
        if kind == "put":
            put(
                workspace,
                claim,
                numbers,
                round=step,
                collection=generator.choice(["default", "second"]),
            )
        elif kind == "gone":
            put(
                workspace,
                claim,
                numbers,
                round=step,
                state=generator.choice([UrlState.GONE, UrlState.EXCLUDED]),
            )
        elif kind == "noindex":
            put(workspace, claim, numbers[:3], round=step, may_index=False)
        elif kind == "merge":
            compact(workspace, CompactionSettings(gather=2), whole=generator.random() < 0.3)
            vacuum(workspace, keep_replaced_ms=0)
        elif kind == "exclude" and rules and generator.random() < 0.5:
            (purge if generator.random() < 0.5 else exclude)(workspace, [rules.pop()])
        elif kind == "export":
            cluster.faults.extend(generator.choices(["", *FAULTS], k=4))
            try:
                send(
                    workspace,
                    cluster,
                    batch_bytes=generator.choice([3_000, 30_000]),
                    save_interval_s=0.0,
                    attempts=4,
                )
            except WorkError:
                continue
            assert stored_texts(cluster) == live(workspace)
    cluster.faults.clear()
    sync(workspace, cluster)


def test_compaction_and_vacuum_during_an_export(
    workspace: Workspace, claim: Claim, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "PAGES_BYTES", 5_000)
    for start in range(0, 200, 20):
        put(workspace, claim, range(start, start + 20))
    vacuumed: list[int] = []

    def compact_and_vacuum() -> None:
        put(workspace, claim, [0, 1], round=3)
        compact(workspace, whole=True)
        vacuumed.append(
            vacuum(workspace, keep_replaced_ms=0, now_ms=round(time.time() * 1_000) + 60_000).files
        )

    cluster.during = compact_and_vacuum
    report = send(workspace, cluster, batch_bytes=4_000)
    assert vacuumed[0] > 10
    assert stored_texts(cluster) == live(workspace)
    assert report.log_entry == workspace.state().head
    assert report.documents < 215  # it did not start again


def _child(root: str, url: str) -> None:
    workspace = Workspace.open(root)
    backoff = quick_backoff()
    client = BulkClient(url, backoff, 5.0, {})
    destination = Destination("opensearch", client.url, "pages", BulkSelection())
    export_bulk(
        workspace,
        OpenSearch(client, "pages"),
        destination,
        backoff,
        batch_bytes=3_000,
        save_interval_s=0.0,
    )


def test_an_export_resumes_after_kills(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(200))
    cluster.pause_s = 0.02
    spawn = multiprocessing.get_context("spawn")
    for kill in range(3):
        child = spawn.Process(target=_child, args=(workspace.root, cluster.url))
        before = cluster.sent()
        child.start()
        deadline = time.monotonic() + 30
        while cluster.sent() < before + 25 and child.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)
        child.kill()
        child.join()
        if kill == 0:
            put(workspace, claim, range(0, 200, 7), round=1)
            put(workspace, claim, range(0, 200, 31), state=UrlState.GONE)
    assert cluster.sent() < 200
    cluster.pause_s = 0.0
    report = sync(workspace, cluster)
    changed = len(range(0, 200, 7)) + len(range(0, 200, 31))
    # each kill repeats at most the requests in flight
    assert cluster.sent() <= 200 + changed + 3 * 30 + 30
    assert report.log_entry == workspace.state().head


def test_quickwit_receives_documents_and_exclusions(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(40))
    with pytest.raises(WorkError, match="create it first"):
        send(workspace, cluster, kind="quickwit")
    cluster.mapping = {}
    cluster.faults.extend([WHOLE_429, ""])
    assert send(workspace, cluster, kind="quickwit", batch_bytes=6_000).documents == 40
    assert {document["id"]: document["text"] for document in cluster.ingested} == live(workspace)
    assert (len(cluster.ingested), set(cluster.commits[:-1])) == (40, {"auto"})
    assert cluster.commits[-1] == "wait_for"
    put(workspace, claim, [1, 2], round=1)
    put(workspace, claim, [6], state=UrlState.GONE)  # Quickwit cannot delete one document
    assert send(workspace, cluster, kind="quickwit").documents == 2
    newest = {
        document["id"]: document["text"]
        for document in sorted(cluster.ingested, key=lambda document: document["log_entry"])
    }
    assert newest.items() >= live(workspace).items()
    exclude(
        workspace,
        ["domain:b.example.net", "host:example.com", "prefix:http://www.example.org/flat/"],
    )
    assert send(workspace, cluster, kind="quickwit").exclusions == 3
    assert {document["id"] for document in cluster.ingested} - live(workspace).keys() <= {
        _id(workspace, 6)
    }


def _id(workspace: Workspace, number: int) -> str:
    url = identify(
        workspace, f"http://{HOSTS[number % 4]}/{'deep' if number % 3 else 'flat'}/{number}"
    )
    return document_id(url.host_key, url.url_key, "default")


def test_jsonl_export_has_the_live_pages(workspace: Workspace, claim: Claim) -> None:
    put(workspace, claim, range(30))
    put(workspace, claim, range(5), round=1)
    put(workspace, claim, [7], state=UrlState.GONE)
    output = io.BytesIO()
    assert export_jsonl(workspace, BulkSelection(), output) == 29
    lines = [json.loads(line) for line in output.getvalue().split(b"\n")[:-1]]
    assert {document["id"]: document["text"] for document in lines} == live(workspace)


def test_credentials_are_read_from_the_environment_and_never_shown(
    workspace: Workspace, claim: Claim, cluster: Cluster
) -> None:
    put(workspace, claim, range(5))
    cluster.authorization = "Basic " + base64.b64encode(b"robot:s3cr:et").decode()
    messages: list[str] = []
    with pytest.raises(WorkError, match="LYCOSA_BULK_AUTH") as refused:
        send(
            workspace,
            cluster,
            environment={"LYCOSA_BULK_AUTH": "robot:wr0ng"},
            notify=messages.append,
        )
    cluster.faults.append(LOST)
    assert (
        send(
            workspace,
            cluster,
            environment={"LYCOSA_BULK_AUTH": "robot:s3cr:et"},
            notify=messages.append,
        ).documents
        == 5
    )
    with pytest.raises(UsageError, match="environment") as in_url:
        BulkClient("http://robot:s3cr:et@127.0.0.1:1", quick_backoff(messages.append), 1.0, {})
    text = " ".join([str(refused.value), str(in_url.value), *messages, *_contents(workspace)])
    for secret in ("s3cr", "wr0ng", cluster.authorization.split()[1]):
        assert secret not in text
    assert authorization("Bearer abc") == "Bearer abc"
    assert authorization("ApiKey abc==") == "ApiKey abc=="
    with pytest.raises(UsageError):
        authorization("just-a-word")


def _contents(workspace: Workspace) -> list[str]:
    return [path.read_text() for path in Path(workspace.path(EXPORTS)).iterdir()]


def test_the_state_of_another_log_is_refused(
    workspace: Workspace, claim: Claim, cluster: Cluster, tmp_path: Path
) -> None:
    put(workspace, claim, range(5))
    send(workspace, cluster)
    other = Workspace.create(str(tmp_path / "other"), partitions=4)
    put(other, other.claim("w"), range(5))
    other.storage.make_folder(EXPORTS)
    for path in Path(workspace.path(EXPORTS)).iterdir():
        other.storage.replace(f"{EXPORTS}/{path.name}", path.read_bytes())
    with pytest.raises(WorkspaceError, match="a different log"):
        send(other, cluster)
    assert send(other, cluster, again=True).documents == 5


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9200", "ftp://x/", "http://", "http://x:y/", "http://x/?a=b"]
)
def test_invalid_urls_of_clusters_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        BulkClient(url, quick_backoff(), 1.0, {})


def test_invalid_index_names_are_refused() -> None:
    client = BulkClient("http://127.0.0.1:1", quick_backoff(), 1.0, {})
    bad = [(OpenSearch, name) for name in ("", "Upper", "_a", "a b", "a/b")]
    for target, name in [*bad, *((Quickwit, name) for name in ("", "a", "1ab", "a b c"))]:
        with pytest.raises(UsageError):
            target(client, name)


def test_domains_of() -> None:
    assert domains_of("www.example.org.") == ["www.example.org", "example.org", "org"]
    assert domains_of("[::1]") == ["[::1]"]
