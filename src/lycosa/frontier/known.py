"""Which URLs are known, and at what depth.

The key of a URL has 64 bits; an independent 32-bit check beside it tells an equal key of another URL, which is refused and
counted instead of being taken for seen.
"""

from __future__ import annotations

from zlib import crc32

from lycosa.core.records import UrlId

_DEPTH_BITS = 32
_DEPTH_MASK = (1 << _DEPTH_BITS) - 1


class KnownUrls:
    """url_key -> (check, depth), packed into one integer each."""

    def __init__(self) -> None:
        self._packed: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def depth(self, identity: UrlId) -> int | None:
        """The least depth at which the URL is known, or None.

        Raises:
            KeyError: another URL has this key.
        """
        packed = self._packed.get(identity.url_key)
        if packed is None:
            return None
        if packed >> _DEPTH_BITS != crc32(identity.url.encode()):
            raise KeyError(identity.url)
        return packed & _DEPTH_MASK

    def put(self, identity: UrlId, depth: int) -> None:
        self._packed[identity.url_key] = crc32(identity.url.encode()) << _DEPTH_BITS | depth
