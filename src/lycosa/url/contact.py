"""Whether a webmaster can reach whoever runs the robot. Pure."""

from __future__ import annotations

import re

CONTACT_NEEDED = (
    "fetch.contact is not set: `lycosa run` fetches from public hosts only when their webmasters can reach you. Set a mail address "
    "that you read, or the URL of a page that names one, in lycosa.toml:\n"
    '    [fetch]\n    contact = "https://www.your-site.net/robot"\n'
    "It is sent with every request and stands in the archive. (`lycosa crawl` does small crawls without it.)"
)
"""What `lycosa run` says when it refuses."""

_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_NAME = rf"(?:{_LABEL}\.)+[^\W\d_](?:[\w-]{{0,61}}[^\W_])"  # a top-level domain has two characters or more, and is no number
_WEB = re.compile(rf"https?://({_NAME})\.?(?::\d{{1,5}})?(?=[/?#\s)>;,\"']|$)", re.IGNORECASE)
_MAIL = re.compile(rf"(?<![^\s(<:+;,\"'])[^\W_][\w.!#$%&'*/=?^`{{|}}~+-]{{0,63}}@({_NAME})(?![\w@-])", re.IGNORECASE)
_NOBODY = re.compile(r"(?:.*\.)?(?:example\.(?:com|net|org)|example|test|invalid|localhost|local|internal)", re.IGNORECASE)
"""Names that lead to nobody (RFC 2606, RFC 6761, RFC 6762, ICANN's .internal): they were copied from documentation."""


def is_reachable_contact(contact: str, user_agent: str) -> bool:
    """Whether `fetch.contact`, or else the User-Agent itself, names an http(s) URL or a mail address on the public Internet."""
    return any(not _NOBODY.fullmatch(name) for text in (contact, user_agent) for name in (*_WEB.findall(text), *_MAIL.findall(text)))
