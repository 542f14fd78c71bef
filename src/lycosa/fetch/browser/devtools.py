"""The Chrome DevTools protocol over the pipes of one browser process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from lycosa.fetch.browser.process import BrowserProcess, Message

Reply = Callable[[Message], None]


class DevTools:
    """Sends calls, and passes each reply to the function of its call."""

    def __init__(self, process: BrowserProcess) -> None:
        self.process = process
        self._closed = False
        self.ready = False  # whether the browser has replied to its first call
        self._ids = count(1)
        self._then: dict[int, Reply] = {}
        self.call(
            "Target.setDiscoverTargets",
            {"discover": True, "filter": [{"type": "page"}]},
            then=self._set_ready,
        )

    def _set_ready(self, _: Message) -> None:
        self.ready = True

    def call(
        self,
        method: str,
        parameters: Message | None = None,
        *,
        session: str = "",
        then: Reply | None = None,
    ) -> None:
        """Call a method; `then` gets its result. Does nothing after `close`."""
        if self._closed:
            return
        number = next(self._ids)
        if then is not None:
            self._then[number] = then
        message: Message = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        self.process.send(message)

    def events(self) -> Iterator[Message]:
        """Yield the events that have arrived. Never waits."""
        for message in self.process.receive():
            number = message.get("id")
            if number is None:
                yield message
            elif (then := self._then.pop(number, None)) is not None:
                then(message.get("result") or {})

    def close(self) -> None:
        """End the process. Functions of pending calls are not called."""
        self._closed = True
        self._then = {}
        self.process.close()
