"""Proofs of search over shards, with real pages and a real cluster. Run by `make prove`."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.corpora import SITES, queries
from bench.federation import agreement, prepare, replicas

from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.replica_supervisor import ReplicaSupervisor
from lycosa.search.federation.sharded_search import ShardedSearch
from lycosa.search.presentation.results import SearchRequest
from tests.search.shards import queries as made_queries
from tests.search.shards import two_indexes, until

pytestmark = pytest.mark.prove

SHARDS, QUERIES, BAR = 8, 200, 9.0


@pytest.mark.parametrize("hosts", [1, 27])
def test_the_first_ten_of_eight_shards_are_those_of_one_index(tmp_path: Path, hosts: int) -> None:
    """200 queries of which each has ten pages or more, over six sites as they are, and spread over
    many hosts.
    """
    if not SITES.is_dir():
        pytest.fail(f"{SITES} is missing: run scripts/make_sites.sh")
    one, many, samples, _ = prepare(str(tmp_path), SITES, 10_000, SHARDS, hosts)
    requests = queries(samples, 3 * QUERIES)
    whole = Searcher(one)
    full = [query for query in requests if whole.search(SearchRequest(query)).total >= 10][:QUERIES]
    assert len(full) == QUERIES
    together = agreement(whole.search, Searcher(many).search, full)
    print(f"\nshards in one process: {together.line()}")
    with replicas(many) as (federation, _):
        far = agreement(whole.search, federation.search, full)
    print(f"replicas: {far.line()}")
    for matches in (together, far):
        assert (matches.totals_differ, len(matches.agreed)) == (0, QUERIES)
        assert matches.mean >= BAR
        assert sum(matches.same_pages) / QUERIES >= BAR


def test_replicas_on_ray_nodes(tmp_path: Path) -> None:
    """Twins lie on different nodes; a node that dies costs nothing; its replicas come back on the
    others.
    """
    from tests.engines.clusters import ray_cluster

    indexes = two_indexes(tmp_path, 3)
    whole = Searcher(indexes.one)
    with ray_cluster(nodes=3) as cluster, cluster.engine() as engine:
        keeper = ReplicaSupervisor(engine, indexes.many, 2, copy=True)
        federation = ShardedSearch(keeper.replicas, call_timeout_s=10.0, deadline_s=30.0)
        try:
            assert keeper.wait(120.0)
            until(lambda: all(len(shard) == 2 for shard in keeper.replicas()), 120.0)
            assert all(len({replica.node for replica in shard}) == 2 for shard in keeper.replicas())

            def check() -> None:
                for query in made_queries():
                    results = federation.search(SearchRequest(query))
                    assert (results.total, results.missing_shards) == (
                        whole.search(SearchRequest(query)).total,
                        (),
                    )

            check()
            lost = cluster.nodes[-1]
            cluster.kill(lost)
            check()
            until(
                lambda: all(
                    len({replica.node for replica in shard}) == 2 for shard in keeper.replicas()
                ),
                120.0,
            )
            assert lost.node_id not in {
                replica.node for shard in keeper.replicas() for replica in shard
            }
            check()
        finally:
            federation.close()
            keeper.close()
