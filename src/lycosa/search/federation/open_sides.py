"""Opening what is searched together: workspaces by their places, peers by their addresses."""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.search.crosslingual.across import Vectors
from lycosa.search.engine.searcher import Searcher
from lycosa.search.federation.peers import Peer
from lycosa.search.federation.side import LocalSide, Side
from lycosa.search.federation.workspaces import Many


def open_many(
    roots: Sequence[str],
    peers: Sequence[str],
    config: Config,
    *,
    own_name: str | None = None,
    vectors: Vectors | None = None,
    whole: Sequence[Side] = (),
) -> Many:
    """The workspaces, of which the first is ours, those of the configuration, and all peers; each
    once. There may be peers alone.

    Hits say the places as they are written here; those of our workspace `own_name`, if it is given.
    `vectors`: of our workspace. `whole`: see `Many`; our workspace may be one of these, and is not
    among `roots` then.

    Raises:
        UsageError: one of them is no place, or no address. WorkspaceError: there is no workspace,
        or its index is damaged.
    """
    places = list(dict.fromkeys([*roots, *config.search.workspaces]))
    if not places and not whole and not (peers or config.search.peers):
        raise UsageError(
            "there is nothing to search: specify a workspace with -w DIR, or another "
            "Lycosa server with --peer URL"
        )
    names = [
        place if own_name is None or number else own_name for number, place in enumerate(places)
    ]
    sides = [
        LocalSide(name, Searcher(place, vectors if number == 0 else None))
        for number, (name, place) in enumerate(zip(names, places, strict=True))
    ]
    addresses = dict.fromkeys(address.rstrip("/") for address in [*peers, *config.search.peers])
    others = [Peer(address, config.fetch) for address in addresses]
    return Many(
        sides,
        others,
        whole=whole,
        timeout_s=config.search.peer_timeout / 1000,
        hops=config.search.hops,
    )
