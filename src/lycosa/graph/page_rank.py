"""PageRank over a file of edges (Page, Brin, Motwani, Winograd 1999).

The file is mapped: memory is three numbers a node and one part of the edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

DAMPING = 0.85
MAX_ROUNDS = 40
_CONVERGED = 1e-4  # sum of changes at which to stop
_PART = 4_000_000  # edges at a time


def page_rank(edges: Path, nodes: int) -> Floats:
    """Return the rank of each node; their sum is 1.

    `edges`: a file of pairs of int32 (from, to), which may repeat.
    """
    if not nodes:
        return np.zeros(0)
    out = np.zeros(nodes)
    for part in edge_parts(edges):
        out += np.bincount(part[:, 0], minlength=nodes)
    rank = np.full(nodes, 1 / nodes)
    for _ in range(MAX_ROUNDS):
        share = np.divide(rank, out, out=np.zeros(nodes), where=out > 0)
        flow = np.zeros(nodes)
        for part in edge_parts(edges):
            flow += np.bincount(part[:, 1], weights=share[part[:, 0]], minlength=nodes)
        following = DAMPING * (flow + rank[out == 0].sum() / nodes) + (1 - DAMPING) / nodes
        moved = float(np.abs(following - rank).sum())
        rank = following
        if moved < _CONVERGED:
            break
    return rank


def edge_parts(edges: Path) -> Iterator[np.ndarray[tuple[int, int], np.dtype[np.int32]]]:
    """Return the edges in parts of bounded size."""
    if not edges.stat().st_size:
        return
    pairs = np.memmap(edges, dtype=np.int32, mode="r").reshape(-1, 2)
    for start in range(0, len(pairs), _PART):
        yield pairs[start : start + _PART]
