"""What the engine of one machine leaves lying while it works for months."""

from __future__ import annotations

import os

import pytest

from lycosa.cluster.engine import Unreachable
from lycosa.cluster.engines import local
from tests.engines.things import Thing
from tests.waiting import until

LIMIT_S = 60.0


def kinds(engine: local.LocalEngine) -> list[str]:
    return sorted(name.partition(".")[2] for name in os.listdir(engine._folder))


def test_of_objects_that_are_gone_few_notes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_MAX_END_NOTES", 2)
    with local.LocalEngine(1) as engine:
        staying = engine.start("staying", Thing, 5)
        gone = [engine.start(f"thing-{number}", Thing) for number in range(4)]
        for remote in gone:
            remote.kill()
        assert staying.ask("add", 1, timeout_s=LIMIT_S) == 6
        until(lambda: kinds(engine) == ["end", "end", "pid", "sock"])
        assert not any(remote.alive() for remote in gone)
        with pytest.raises(Unreachable, match="it was killed"):
            next(remote for remote in gone if remote.file("end").exists()).ask(
                "count", timeout_s=LIMIT_S
            )
