"""Complete a query while it is typed.

Suggestions are phrases of the pages (titles, headings, link texts, frequent words) in which the
typed text is a prefix from some word on. If there are few, only the last word is completed, by
words that pages contain together with the words before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lycosa.core.dataclass import dataclass
from lycosa.index.suggest.file import ANCHOR, HEADING, TITLE, WORD, Phrase, SuggestFile
from lycosa.index.suggest.normalise import folded

MAX_SUGGESTIONS = 50
MAX_TYPED = 200  # characters that are used
KINDS = {TITLE: "title", ANCHOR: "link", HEADING: "heading", WORD: "word"}
_MORE = 4  # factor of requested phrases: several languages may have the same phrase
_TRIED = 3  # completions of the last word that are searched

Ask = Callable[[str, int, str, bool], Iterable[Sequence[Phrase]]]
"""Return the best phrases of all shards: folded prefix, count, language ("": any), words only."""


@dataclass(slots=True, frozen=True)
class SuggestRequest:
    """`text`: typed so far. `language`: restricts suggestions to pages in it; "": any."""

    text: str
    count: int = 10
    language: str = ""


@dataclass(slots=True, frozen=True)
class Suggestion:
    """`kind`: origin, one of `KINDS`. `pages`: approximate number. `weight`: for sorting only."""

    text: str
    language: str
    kind: str
    pages: int
    weight: float


def completions(
    files: Sequence[SuggestFile], start: str, count: int, language: str, words: bool
) -> list[Sequence[Phrase]]:
    """Return the phrases of each file, as `Ask` does."""
    return [file.complete(start, count, language, words) for file in files]


def suggestions(
    request: SuggestRequest, ask: Ask, matches: Callable[[str, str], int]
) -> list[Suggestion]:
    """Return suggestions, best first. `matches` returns the pages of a query in a language."""
    count = max(0, min(request.count, MAX_SUGGESTIONS))
    typed = request.text[:MAX_TYPED]
    start = folded(typed)
    if not start.strip() or not count:
        return []
    best = _merged(ask(start, count * _MORE, request.language, False))[:count]
    head, _, last = typed.rstrip().rpartition(" ")
    if len(best) >= count or not head.strip() or not folded(last) or typed[-1].isspace():
        return best
    for word in _merged(ask(folded(last), _TRIED, request.language, True))[:_TRIED]:
        text = f"{head} {word.text}"
        if len(best) < count and text.lower() != typed.lower():
            pages = matches(text, word.language)
            if pages:
                best.append(Suggestion(text, word.language, word.kind, pages, 0.0))
    return best


def _merged(answers: Iterable[Sequence[Phrase]]) -> list[Suggestion]:
    """Merge phrases of several shards and languages; weights and pages of equal ones add up."""
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
