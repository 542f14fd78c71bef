"""What somebody who types may want to type: phrases of the pages that go on like that, from the
files of all shards.

First whole phrases (titles, headings, texts of links, frequent words) of which some words begin
with what is typed. If these are few, the last word alone is carried on, and only as far as pages
hold it together with those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lycosa.index.suggest.file import ANCHOR, HEADING, TITLE, WORD, Phrase, SuggestFile
from lycosa.index.suggest.normalise import folded

MAX_SUGGESTIONS = 50
MAX_TYPED = 200  # characters that are looked at
KINDS = {TITLE: "title", ANCHOR: "link", HEADING: "heading", WORD: "word"}
_MORE = 4  # times as many phrases are asked for: a phrase may come in several languages
_TRIED = 3  # last words that are tried with those before them

Ask = Callable[[str, int, str, bool], Iterable[Sequence[Phrase]]]
"""Asks all shards for the best phrases: the folded beginning, how many, the language ("": any),
whether words alone.
"""


@dataclass(slots=True, frozen=True)
class SuggestRequest:
    """`text`: what was typed so far. `language`: only phrases of pages in it; "": of any."""

    text: str
    count: int = 10
    language: str = ""


@dataclass(slots=True, frozen=True)
class Suggestion:
    """`kind`: where it is from, of `KINDS`; `pages`: how many hold it, about. `weight` puts
    suggestions in order and means no more.
    """

    text: str
    language: str
    kind: str
    pages: int
    weight: float


def phrases_of(
    files: Sequence[SuggestFile], start: str, count: int, language: str, words: bool
) -> list[Sequence[Phrase]]:
    """What each file says; for `Ask`."""
    return [file.begin_with(start, count, language, words) for file in files]


def suggestions(
    request: SuggestRequest, ask: Ask, matches: Callable[[str, str], int]
) -> list[Suggestion]:
    """The best first. `matches` says how many pages a query finds in a language."""
    count = max(0, min(request.count, MAX_SUGGESTIONS))
    typed = request.text[:MAX_TYPED]
    start = folded(typed)
    if not start.strip() or not count:
        return []
    found = _merged(ask(start, count * _MORE, request.language, False))[:count]
    head, _, last = typed.rstrip().rpartition(" ")
    if len(found) >= count or not head.strip() or not folded(last) or typed[-1].isspace():
        return found
    for word in _merged(ask(folded(last), _TRIED, request.language, True))[:_TRIED]:
        text = f"{head} {word.text}"
        if len(found) < count and text.lower() != typed.lower():
            pages = matches(text, word.language)
            if pages:
                found.append(Suggestion(text, word.language, word.kind, pages, 0.0))
    return found


def _merged(answers: Iterable[Sequence[Phrase]]) -> list[Suggestion]:
    """Phrases of several shards and languages as one list: the same phrase counts once, with all
    that it counts.
    """
    best: dict[str, Phrase] = {}
    weights: dict[str, float] = {}
    pages: dict[str, int] = {}
    for phrase in (phrase for answer in answers for phrase in answer):
        key = phrase.folded.rstrip()
        weights[key] = weights.get(key, 0.0) + phrase.weight
        pages[key] = pages.get(key, 0) + phrase.pages
        if key not in best or phrase.weight > best[key].weight:
            best[key] = phrase
    order = sorted(best, key=lambda key: (-weights[key], len(key), key))
    return [
        Suggestion(
            best[key].text, best[key].language, KINDS[best[key].kind], pages[key], weights[key]
        )
        for key in order
    ]
