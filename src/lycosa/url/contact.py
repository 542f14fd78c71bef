"""Whether webmasters can contact the operator. Pure."""

from __future__ import annotations

import re

from lycosa.core.patterns import lazy_pattern

CONTACT_NEEDED = (
    "fetch.contact is not set: `lycosa run` fetches from public hosts only if their webmasters "
    "can reach you. Set it "
    "in lycosa.toml to a mail address that you read, or to the URL of a page with contact "
    "details:\n"
    '    [fetch]\n    contact = "https://www.your-site.net/robot"\n'
    "It is sent with every request and stored in the archive. (`lycosa crawl` runs small crawls "
    "without it.)"
)
"""Error of `lycosa run` without a contact."""

_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
# a top-level domain has two characters or more, and is no number
_NAME = rf"(?:{_LABEL}\.)+[^\W\d_](?:[\w-]{{0,61}}[^\W_])"
_WEB = lazy_pattern(rf"https?://({_NAME})\.?(?::\d{{1,5}})?(?=[/?#\s)>;,\"']|$)", re.IGNORECASE)
_MAIL = lazy_pattern(
    rf"(?<![^\s(<:+;,\"'])[^\W_][\w.!#$%&'*/=?^`{{|}}~+-]{{0,63}}@({_NAME})(?![\w@-])",
    re.IGNORECASE,
)
_RESERVED = lazy_pattern(
    r"(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost|local|internal)",
    re.IGNORECASE,
)
"""Reserved names (RFC 2606, RFC 6761, RFC 6762, ICANN's .internal), probably copied from
documentation.
"""


def is_reachable_contact(contact: str, user_agent: str) -> bool:
    """Whether `fetch.contact`, or else the User-Agent itself, names an http(s) URL or a mail
    address on the public Internet.
    """
    return any(
        not _RESERVED.fullmatch(name)
        for text in (contact, user_agent)
        for name in (*_WEB.findall(text), *_MAIL.findall(text))
    )
