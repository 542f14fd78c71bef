"""Fetch pages for a client program, such as an agent, that names the URLs.

The operator did not enter these URLs. So private addresses are refused unless `fetch.connect_to`
names them, the operator's exclusions apply, and a host is paused between two fetches. Nothing is
stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cachetools import TTLCache

from lycosa.commands.inspection.single import answer_of, read_fetched
from lycosa.commands.page_models import FetchedPage
from lycosa.config.settings import Config
from lycosa.core.errors import Exclusion
from lycosa.crawl.session.single_fetch import OneOff
from lycosa.crawl.session.submission import exclusion_list
from lycosa.page.html.markdown import MarkdownMode
from lycosa.store.storage.storage import open_storage
from lycosa.store.workspace import FILE, Workspace
from lycosa.url.domain import Domains, bundled_suffix_list
from lycosa.url.scope import hostname

MAX_WAIT_S = 30.0
"""Maximum wait for a paused host. A longer pause is an error."""

_MAX_HOSTS = 10_000
_MAX_PAUSE_S = 3_600.0


class ClientFetches:
    """Fetches single pages politely. Threads may share it.

    Args:
        root: the workspace with the exclusions to apply; it may not exist.
        config: the settings.
        delay_ms: minimum delay between two fetches of a host.
    """

    def __init__(
        self,
        root: str,
        config: Config,
        delay_ms: int,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._root = root
        self._config = config
        self._delay_s = delay_ms / 1000
        self._now, self._sleep = now, sleep
        self._lock = threading.Lock()
        self._ready_at: TTLCache[str, float] = TTLCache(_MAX_HOSTS, _MAX_PAUSE_S, now)

    def page(self, url: str, mode: MarkdownMode = MarkdownMode.MAIN) -> FetchedPage:
        """Fetch and parse one page. `mode`: the content of its Markdown.

        Raises:
            UsageError: the URL cannot be fetched.
            WorkError: it is not allowed, its host is paused, there is no response, or it cannot be
            parsed.
        """
        settings = self._config.fetch
        excluded = self._exclusions()

        def admit(target: str) -> str:
            return excluded(target) or self._wait(hostname(target))

        with OneOff(settings, url, admit) as one:
            hops = list(one.hops())
            for hop in hops:
                if hop.exchange is not None:
                    self._pause(hostname(hop.url), one.crawl_delay_ms(hop.url) / 1000)
        return read_fetched(answer_of(hops[-1]), settings, mode)

    def _exclusions(self) -> Callable[[str], str]:
        """Return a function that returns the reason of a URL's exclusion, or ""."""
        rules = exclusion_list(self._config)
        state, domains = None, None
        if open_storage(self._root).size(FILE) is not None:
            workspace = Workspace.open(self._root)
            state, domains = workspace.state(), workspace.domains
        domains = domains or Domains(bundled_suffix_list())

        def excluded(url: str) -> str:
            host = hostname(url)
            logged = state is not None and state.excluded(url, host)
            if logged or rules.excluded(url, host, domains.registrable(host)):
                return f"{Exclusion.OPERATOR}: the operator excluded it"
            return ""

        return excluded

    def _wait(self, host: str) -> str:
        """Wait for a host's pause; return an error if it is too long, else ""."""
        with self._lock:
            now = self._now()
            start = max(now, self._ready_at.get(host, now))
            if start - now > MAX_WAIT_S:
                return f"its host is paused for {start - now:.0f} s: fetch it later"
            self._ready_at[host] = start + self._delay_s
        self._sleep(max(start - now, 0.0))
        return ""

    def _pause(self, host: str, crawl_delay_s: float) -> None:
        """Apply the Crawl-delay of a host that was just fetched."""
        until = self._now() + min(max(crawl_delay_s, self._delay_s), _MAX_PAUSE_S)
        with self._lock:
            self._ready_at[host] = max(until, self._ready_at.get(host, 0.0))
