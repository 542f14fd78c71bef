"""The Referer that a request may have: `strict-origin-when-cross-origin` of Referrer Policy, as
browsers do by default. Pure.
"""

from __future__ import annotations

from lycosa.url.scope import url_origin

_LONGEST = 4_096
"""A longer one is cut to its origin (Referrer Policy section 8.3, step 5)."""


def referer_for(referrer: str, url: str) -> str:
    """What to say to `url` of the page that led there, both normalised; "" nothing."""
    if not referrer.startswith(("http://", "https://")) or not url.startswith(
        ("http://", "https://")
    ):
        return ""
    origin = url_origin(referrer)
    if origin == url_origin(url):
        return referrer if len(referrer) <= _LONGEST else f"{origin}/"
    if origin.startswith("https:") and url.startswith("http:"):
        return ""
    return f"{origin}/"
