"""Who may write through the server: tokens that are shown once and stored as digests.

A token is 256 bits from the system's random source, so a plain SHA-256 of it cannot be reversed by
guessing; a slow password hash would only slow the server. One file a token, `run/tokens/NAME.json`
(mode 0600): adding is creating, revoking is deleting, and neither can lose another's.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lycosa.core.clock import Clock, SystemClock
from lycosa.core.errors import UsageError
from lycosa.core.units import format_time
from lycosa.store.coordination.owner import owner_of
from lycosa.store.storage.storage import Storage

FOLDER = "run/tokens"
PREFIX = "lycosa_"
"""What every token begins with, so that a scanner of leaked secrets can know one."""
OWNER = "(this machine)"
"""The name under which commands on this machine come, with the token of `run/owner.json`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEPT_MS = 2_000


@dataclass(slots=True, frozen=True)
class Token:
    """What is stored of a token. `sha256` in hexadecimal."""

    name: str
    sha256: str
    created_at: str


class Tokens:
    """The tokens of a workspace. Threads may share it; what another process adds or removes is seen
    within two seconds.
    """

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._tokens: Mapping[str, Token] = {}
        self._read_at: int | None = None

    def add(self, name: str) -> str:
        """Make a token; its text is returned and cannot be had again.

        Raises:
            UsageError: the name is taken or is none.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is not a valid token name: use up to 64 lower-case "
                "letters, digits, dots and hyphens"
            )
        token = PREFIX + secrets.token_urlsafe(32)
        self._storage.make_folder(FOLDER)
        stored = Token(name, _digest(token), format_time(self._clock.now_ms()))
        if not self._storage.create(
            _path(name), (json.dumps(asdict(stored), indent=1) + "\n").encode(), mode=0o600
        ):
            raise UsageError(
                f"token {name!r} already exists; revoke it with `lycosa token remove {name}`"
            )
        self._read_at = None
        return token

    def remove(self, name: str) -> None:
        """Revoke a token.

        Raises:
            UsageError: there is none of that name.
        """
        if name not in self.all(fresh=True):
            raise UsageError(
                f"there is no token {name!r}; list the tokens with `lycosa token list`"
            )
        self._storage.remove(_path(name))
        self._read_at = None

    def all(self, *, fresh: bool = False) -> Mapping[str, Token]:
        """Return the tokens by name."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if fresh or self._read_at is None or now_ms - self._read_at >= _KEPT_MS:
                tokens = (
                    self._read(file)
                    for file in sorted(self._storage.names(FOLDER))
                    if file.endswith(".json")
                )
                self._tokens = {token.name: token for token in tokens if token is not None}
                self._read_at = now_ms
            return self._tokens

    def holder(self, token: str) -> str | None:
        """Return the holder of a token, None without one.

        Takes constant time for any token.
        """
        holder = None
        digest = _digest(token)
        for stored in self.all().values():
            if hmac.compare_digest(stored.sha256, digest):
                holder = stored.name
        if (
            holder is None
            and (owner := owner_of(self._storage)) is not None
            and owner.token
            and hmac.compare_digest(_digest(owner.token), digest)
        ):
            return OWNER
        return holder

    def _read(self, file: str) -> Token | None:
        """None for a file that was just removed or is none of ours: it opens nothing."""
        try:
            document = json.loads(self._storage.read(f"{FOLDER}/{file}") or b"null")
            sha256 = str(document["sha256"])
            return (
                Token(file.removesuffix(".json"), sha256, str(document["created_at"]))
                if _DIGEST.fullmatch(sha256)
                else None
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.json"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
