"""What a person typed, taken apart. No input is an error: what makes no sense as syntax is searched for as words.

words              pages with all of them (with most of them, if few have all)
"a phrase"         these words in this order; also “…”, „…“, «…», 「…」
-word -"a phrase"  pages without it
site:example.org   pages of this host and the hosts below it; -site: leaves them out
lang:xx            pages in this language
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_WORDS = 32
"""Words and phrases of a query that are looked at; the rest is passed over, with a note."""
LONGEST_QUERY = 2_000  # characters

_CLOSING = {'"': '"', "“": "”“", "„": "“”", "«": "»", "「": "」", "『": "』"}  # opening quotation mark -> those that may close it
_FIELD = re.compile(r"(site|host|lang|language):(?=\S)", re.IGNORECASE)
_LANGUAGE = re.compile(r"^[a-z]{2,3}(?:-[a-z0-9]+)*$")


@dataclass(slots=True, frozen=True)
class Clause:
    """One word or phrase as typed."""

    text: str
    phrase: bool = False


@dataclass(slots=True, frozen=True)
class ParsedQuery:
    """A query taken apart; hosts and languages are in lower case."""

    wanted: tuple[Clause, ...] = ()
    unwanted: tuple[Clause, ...] = ()
    sites: tuple[str, ...] = ()
    unwanted_sites: tuple[str, ...] = ()
    language: str = ""
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.wanted or self.unwanted or self.sites or self.unwanted_sites or self.language)


def parse_query(text: str) -> ParsedQuery:
    """Take a query apart; never raises."""
    wanted: list[Clause] = []
    unwanted: list[Clause] = []
    sites: list[str] = []
    unwanted_sites: list[str] = []
    language, notes = "", []
    if len(text) > LONGEST_QUERY:
        text = text[:LONGEST_QUERY]
        notes.append(f"only the first {LONGEST_QUERY} characters were looked at")
    place, length = 0, len(text)
    while place < length:
        if text[place].isspace():
            place += 1
            continue
        negative = text[place] in "-−" and place + 1 < length and not text[place + 1].isspace()
        start = place + negative
        if text[start] in _CLOSING:
            content, place = _quoted(text, start)
            if content:
                (unwanted if negative else wanted).append(Clause(content, phrase=True))
            continue
        end = start
        while end < length and not text[end].isspace():
            end += 1
        word, place = text[start:end], end
        field = _FIELD.match(word)
        value = word[field.end() :].lower() if field else ""
        if field and field[1].lower() in ("site", "host") and (host := _host(value)):
            (unwanted_sites if negative else sites).append(host)
        elif field and field[1].lower().startswith("lang") and not negative and _LANGUAGE.match(value):
            language = value.partition("-")[0]
        else:
            (unwanted if negative else wanted).append(Clause(word))
    if len(wanted) + len(unwanted) > MOST_WORDS:
        notes.append(f"only the first {MOST_WORDS} words were looked at")
        wanted, unwanted = wanted[:MOST_WORDS], unwanted[: max(0, MOST_WORDS - len(wanted))]
    return ParsedQuery(tuple(wanted), tuple(unwanted), tuple(sites), tuple(unwanted_sites), language, tuple(notes))


def _quoted(text: str, start: int) -> tuple[str, int]:
    """The content of a quotation that opens at `start`, and where reading goes on. One that never closes reaches to the end."""
    closing = _CLOSING[text[start]]
    for place in range(start + 1, len(text)):
        if text[place] in closing:
            return text[start + 1 : place].strip(), place + 1
    return text[start + 1 :].strip(), len(text)


def _host(value: str) -> str:
    """`https://Example.org:80/path` -> `example.org`: people paste what they see."""
    host = value.partition("://")[2] or value
    host = re.split(r"[/?#]", host, maxsplit=1)[0].rpartition("@")[2]
    if not host.startswith("["):
        host = host.partition(":")[0]
    return host.strip(".").removeprefix("*.")
