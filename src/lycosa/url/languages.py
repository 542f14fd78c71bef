"""Language codes in URLs and in declarations."""

from __future__ import annotations

import re

from lycosa.core.patterns import lazy_pattern

CODE_IN_PATH = lazy_pattern(
    r"(?<=[/._=])([a-z]{2})(?:[-_]([a-z]{2,4}))?(?=[/._&]|$)", re.IGNORECASE
)
CODE_IN_HOST = lazy_pattern(r"^([a-z][a-z0-9+.-]*://)([a-z]{2})\.(?=[^/]+\.[^/])", re.IGNORECASE)
_TAG = lazy_pattern(r"\s*([A-Za-z]{2,3})(?:[-_][\w-]*)?\s*")
_ALIASES = {
    "cn": "zh",
    "tw": "zh",
    "jp": "ja",
    "kr": "ko",
    "cz": "cs",
    "gr": "el",
    "ua": "uk",
    "nb": "no",
    "nn": "no",
    "iw": "he",
    "in": "id",
    "ji": "yi",
    "fil": "tl",
    "cmn": "zh",
    "yue": "zh",
    "prs": "fa",
}
"""Country codes and outdated or narrower language codes, with the code that Lycosa uses."""


def language_code(tag: str) -> str:
    """Return the ISO 639 code of a language tag (`pt-BR` -> `pt`); "" for none, for several and for
    an invalid tag.
    """
    match = _TAG.fullmatch(tag)
    return _ALIASES.get(match[1].lower(), match[1].lower()) if match else ""


def language_of_url(url: str) -> str:
    """Return the last language code in a URL, as ISO 639 code; "" for none. Any word of two letters
    may be taken for one.
    """
    path = url.find("/", url.find("://") + 3)
    named = ""
    for match in CODE_IN_PATH.finditer(url, path) if path > 0 else ():
        named = match[1]
    if not named and (host := CODE_IN_HOST.match(url)) is not None:
        named = host[2]
    return language_code(named)
