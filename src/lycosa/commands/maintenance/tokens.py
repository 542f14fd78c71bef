"""Tokens for writing through the server: shown once, stored as digests.

A token is 256 bits from the system's random source, so a plain SHA-256 of it cannot be reversed by
guessing; a slow password hash would only slow the server. Each token is a file,
`run/tokens/NAME.json` (mode 0600): a token is added or revoked without rewriting any other.
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
from lycosa.store.storage.storage import Storage, json_documents

FOLDER = "run/tokens"
PREFIX = "lycosa_"
"""Prefix of every token, for scanners that search for leaked secrets."""
OWNER = "(this machine)"
"""The holder of the token in `run/owner.json`: commands on this machine."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KEPT_MS = 2_000


@dataclass(slots=True, frozen=True)
class Token:
    """The stored data of a token. `sha256` in hexadecimal."""

    name: str
    sha256: str
    created_at: str


class Tokens:
    """The tokens of a workspace. Thread-safe.

    Changes by other processes take effect within 2 s.
    """

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self._storage = storage
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._tokens: Mapping[str, Token] = {}
        self._read_at: int | None = None

    def add(self, name: str) -> str:
        """Create a token and return its text, which is not stored.

        Raises:
            UsageError: the name is invalid or already used.
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
            UsageError: there is no token with that name.
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
                self._tokens = {
                    name: Token(name, str(document["sha256"]), str(document["created_at"]))
                    for name, document in json_documents(self._storage, FOLDER)
                    if _DIGEST.fullmatch(str(document.get("sha256"))) and "created_at" in document
                }
                self._read_at = now_ms
            return self._tokens

    def holder(self, token: str) -> str | None:
        """Return the name of a token by its text; None if it is invalid.

        The comparison takes constant time.
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


def _path(name: str) -> str:
    return f"{FOLDER}/{name}.json"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
