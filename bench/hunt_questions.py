"""Questions for hunts on two real sites, and the pages that answer them.

They were written by reading the tables of contents of the sites, before any hunt was run for them.
Other questions were used to tune `lycosa.hunt.relevance` and `lycosa.hunt.strategies`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Question:
    """A question, its site, and the paths of the pages that answer it."""

    text: str
    site: str
    right: tuple[str, ...]


def _python(text: str, *right: str) -> Question:
    return Question(text, "python-doc", tuple(f"/{path}.html" for path in right))


def _debian(text: str, *right: str) -> Question:
    return Question(text, "debian-reference", tuple(f"/{path}.en.html" for path in right))


FIRST = _python("How do I read and write CSV files?", "library/csv")
"""The question of the time to the first result; it was used for tuning."""

QUESTIONS = (
    _python("How do I connect to an SQLite database?", "library/sqlite3"),
    _python("compress data with gzip", "library/gzip"),
    _python("send an email message over SMTP", "library/smtplib", "library/email.examples"),
    _python("How do I compute the SHA-256 digest of a file?", "library/hashlib"),
    _python("generate cryptographically strong random tokens", "library/secrets"),
    _python("What time zones are supported and how do I convert between them?", "library/zoneinfo"),
    _python("run a subprocess and capture its output", "library/subprocess"),
    _python("shell-style wildcards for matching file names", "library/fnmatch", "library/glob"),
    _python("How do I write a C extension module?", "extending/extending"),
    _python("replace text with regular expressions", "library/re", "howto/regex"),
    _python(
        "Why are floating-point calculations so inaccurate?", "faq/design", "tutorial/floatingpoint"
    ),
    _python("create a virtual environment", "library/venv", "tutorial/venv"),
    _python("profile a program to see where time is spent", "library/profile"),
    _python("weak references to objects that may be garbage collected", "library/weakref"),
    _debian("How do I share a clipboard between X applications?", "ch07"),
    _debian("convert the character encoding of a text file with iconv", "ch11"),
    _debian("scheduling tasks regularly with cron", "ch09"),
    _debian("configure the hostname resolution and network interfaces", "ch05"),
    _debian("backup and recovery of personal data", "ch10"),
    _debian("How does PAM authenticate users?", "ch04"),
)
