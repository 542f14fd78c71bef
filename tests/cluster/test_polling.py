"""Polling of other processes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from lycosa.cluster.polling import Poll
from lycosa.core.clock import ManualClock


def test_a_poll_whose_threads_are_shut_down_raises_nothing() -> None:
    """A daemon that stopped while its cluster still answered ended with a traceback."""
    threads, clock, answered = ThreadPoolExecutor(1), ManualClock(), Event()
    blocked = threads.submit(answered.wait, 10)
    poll = Poll(lambda: 1, 100, threads, clock)
    poll.look()  # waits behind the other task
    threads.shutdown(wait=False, cancel_futures=True)
    answered.set()
    blocked.result()
    for _ in range(3):
        poll.look()
        clock.advance(1_000)
    assert poll.answer is None
