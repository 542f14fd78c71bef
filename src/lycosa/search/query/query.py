"""Parse queries by the rules of docs/reference/query.md. Every input is a valid query: invalid
syntax is searched for as words.

The result is hashable and picklable, because it is sent to every shard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from lycosa.core.dataclass import dataclass
from lycosa.core.messages import Message
from lycosa.search.query.syntax import (
    AFTER,
    AUTHOR,
    BEFORE,
    BY_NAME,
    LANGUAGE,
    LINK,
    SIMILAR,
    SITE,
    SORT,
    Operator,
)

MAX_WORDS = 256
"""Maximum number of words and phrases of a query; a note reports that others are ignored."""
MAX_QUERY_CHARACTERS = 2_000  # characters
MAX_DEPTH = 8  # of nested parentheses; deeper ones are ignored
MIN_PREFIX = 2  # letters before an asterisk

# opening quotation mark -> those that may close it
_CLOSING = {'"': '"', "“": "”“", "„": "“”", "«": "»", "「": "」", "『": "』"}
_FIELD = re.compile(rf"({'|'.join(BY_NAME)}):(?=\S)", re.IGNORECASE)
_MINUS = "-−"
_OR = frozenset({"OR", "|", "||"})
_AND = "AND"


@dataclass(slots=True, frozen=True)
class Clause:
    """A word or phrase as typed. `within`: `intitle`, `inurl` or `inanchor`, if it has one."""

    text: str
    phrase: bool = False
    prefix: bool = False
    within: str = ""

    @property
    def quoted(self) -> str:
        """The clause as a phrase of the query language."""
        return f'{self.within}:"{self.text}"' if self.within else f'"{self.text}"'


@dataclass(slots=True, frozen=True)
class ClauseGroup:
    """All parts (parentheses, `every`), or any of them (OR)."""

    parts: tuple[Part, ...]
    every: bool = False


Part = Clause | ClauseGroup


@dataclass(slots=True, frozen=True)
class Restriction:
    """A filter of the whole query: the first name of its operator, and the canonical value.

    `include` is False for a filter with a minus.
    """

    name: str
    value: str
    include: bool = True


@dataclass(slots=True, frozen=True)
class ParsedQuery:
    """A parsed query. `order`: that of the results, "" if the query has none."""

    required: tuple[Part, ...] = ()
    excluded: tuple[Part, ...] = ()
    restrictions: tuple[Restriction, ...] = ()
    order: str = ""
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.required or self.excluded or self.restrictions)

    def values(self, name: str, *, include: bool = True) -> tuple[str, ...]:
        """Return the values of the restrictions of a name."""
        return tuple(
            restriction.value
            for restriction in self.restrictions
            if restriction.name == name and restriction.include == include
        )

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that the query is restricted to; none: any."""
        return self.values(LANGUAGE)

    @property
    def similar(self) -> str:
        """The URL of `similar:`; "": none."""
        return next(iter(self.values(SIMILAR)), "")

    @property
    def sites(self) -> tuple[str, ...]:
        return self.values(SITE)


def parse_query(text: str) -> ParsedQuery:
    """Parse a query. Never raises."""
    notes = []
    if len(text) > MAX_QUERY_CHARACTERS:
        text = text[:MAX_QUERY_CHARACTERS]
        notes.append(
            Message(
                "cut_characters",
                "only the first {n} characters of the query were used",
                n=MAX_QUERY_CHARACTERS,
            )
        )
    reader = _Reader(text)
    required = reader.sequence("")
    if reader.cut:
        notes.append(
            Message("cut_words", "only the first {n} words of the query were used", n=MAX_WORDS)
        )
    restrictions = tuple(dict.fromkeys(reader.restrictions))
    return ParsedQuery(
        tuple(required),
        tuple(reader.excluded),
        restrictions,
        reader.order,
        (*notes, *dict.fromkeys(reader.notes)),
    )


def clauses(parts: tuple[Part, ...]) -> Iterator[Clause]:
    """Yield the words and phrases within parts, in order."""
    for part in parts:
        if isinstance(part, ClauseGroup):
            yield from clauses(part.parts)
        else:
            yield part


def with_words_of(parsed: ParsedQuery, chosen: Callable[[Clause], bool]) -> ParsedQuery:
    """Return the query that requires the words of the chosen phrases instead of the phrases."""

    def relaxed(part: Part) -> Part:
        if isinstance(part, ClauseGroup):
            return replace(part, parts=tuple(map(relaxed, part.parts)))
        return replace(part, phrase=part.phrase and not chosen(part))

    return replace(parsed, required=tuple(map(relaxed, parsed.required)))


class _Reader:
    """Reads a query once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0
        self._words = 0
        self.cut = False
        self.excluded: list[Part] = []
        self.restrictions: list[Restriction] = []
        self.order = ""
        self.notes: list[str] = []

    def sequence(self, within: str) -> list[Part]:
        """Return the parts up to the end of the parentheses, or of the text.

        Restrictions and excluded parts are collected for the whole query.
        """
        parts: list[Part] = []
        # OR precedes the next part; the previous part can be joined by it
        alternative = joinable = False
        while (start := self._skip_space()) < len(self._text):
            if self._text[start] == ")":
                self._place += 1
                if self._depth:
                    break
                continue
            joiner = self._joiner(start, bool(parts or self.restrictions or self.excluded))
            if joiner:
                alternative = joinable and joiner != _AND
                continue
            part = self._part(within)
            joinable = part is not None
            if part is None:
                alternative = False
                continue
            if alternative:
                before = parts.pop()
                together = (
                    before.parts
                    if isinstance(before, ClauseGroup) and not before.every
                    else (before,)
                )
                part = ClauseGroup((*together, part))
            parts.append(part)
            alternative = False
        return parts

    def _skip_space(self) -> int:
        while self._place < len(self._text) and self._text[self._place].isspace():
            self._place += 1
        return self._place

    def _joiner(self, start: int, something_before: bool) -> str:
        """Return OR, or AND (which has no effect), if it is here between two parts; else ""."""
        end = self._word_end(start)
        word = self._text[start:end]
        if not something_before or not (word in _OR or word == _AND):
            return ""
        rest = self._text[end:].lstrip()
        if not rest or rest[0] == ")" or (rest.split(None, 1)[0] in _OR):
            return ""
        self._place = end
        return word

    def _part(self, within: str) -> Part | None:
        """Return the next part; None: it was a restriction, excluded, or empty."""
        text, start = self._text, self._place
        negative = text[start] in _MINUS and start + 1 < len(text) and not text[start + 1].isspace()
        self._place += negative
        field = _FIELD.match(text, self._place)
        if field is not None:
            operator = BY_NAME[field[1].lower()]
            if operator.read is not None:
                if self._restriction(operator, field.end(), negative):
                    return None
            else:
                self._place, within = field.end(), operator.names[0]
        part = self._plain(within)
        if part is not None and negative:
            self.excluded.append(part)
            return None
        if part in (Clause("OR"), Clause(_AND)):
            self.notes.append(
                Message(
                    "joiner_as_word",
                    "{word} was searched for as a word, because it is not between two words",
                    word=text[start : self._place],
                )
            )
        return part

    def _plain(self, within: str) -> Part | None:
        text, start = self._text, self._quotation(self._place)
        self._place = start
        if start == len(text) or text[start].isspace() or text[start] == ")":
            return None
        if text[start] in _CLOSING:
            content, self._place = _quoted(text, start)
            return self._counted(Clause(content, phrase=True, within=within)) if content else None
        if text[start] == "(":
            self._place += 1
            if self._depth >= MAX_DEPTH:
                return None
            self._depth += 1
            parts = tuple(self.sequence(within))
            self._depth -= 1
            return ClauseGroup(parts, every=True) if len(parts) > 1 else parts[0] if parts else None
        self._place = self._word_end(start)
        word = text[start : self._place]
        stem = word.rstrip("*")
        if stem != word and len([letter for letter in stem if letter.isalnum()]) >= (
            MIN_PREFIX if stem.isascii() else 1
        ):
            return self._counted(Clause(stem, prefix=True, within=within))
        return self._counted(Clause(word, within=within))

    def _counted(self, clause: Clause) -> Clause | None:
        self._words += 1
        if self._words > MAX_WORDS:
            self.cut = True
            return None
        return clause

    def _word_end(self, start: int, *, is_value: bool = False) -> int:
        """Return the end of a word, or of bars: a space, a bar, or a parenthesis that closes an
        earlier one. Values of operators may contain bars, as URLs do.
        """
        opened = 0
        for place in range(start, len(self._text)):
            letter = self._text[place]
            if letter.isspace():
                return place
            if not is_value and (letter == "|") != (self._text[start] == "|"):
                return place
            if self._depth and letter == "(":
                opened += 1
            elif self._depth and letter == ")":
                if not opened:
                    return max(place, start + 1)
                opened -= 1
        return len(self._text)

    def _quotation(self, place: int) -> int:
        """Return the position after quotation marks that are not closed; they are ignored."""
        text, end = self._text, place
        while end < len(text) and text[end] in _CLOSING and not _quoted(text, end)[1]:
            end += 1
        if end > place:
            self.notes.append(
                Message("unclosed_quotation", "a quotation mark that is not closed was ignored")
            )
        return end

    def _restriction(self, operator: Operator, start: int, negative: bool) -> bool:
        """Read an operator's value; False: it is invalid, and searched for as words."""
        text, start = self._text, self._quotation(start)
        if start < len(text) and text[start] in _CLOSING:
            value, end = _quoted(text, start)
        else:
            end = self._word_end(start, is_value=True)
            value = text[start:end]
        assert operator.read is not None
        name = operator.names[0]
        values = [
            operator.read(each)
            for each in (value.split(",") if name not in (AUTHOR, LINK, SIMILAR) else [value])
        ]
        if not all(values) or not values:
            self.notes.append(
                Message(
                    "operator_value",
                    "{operator}: needs {wants}; {operator}:{value} was searched for as words",
                    operator=name,
                    wants=operator.wants,
                    value=value,
                )
            )
            return False
        self._place = end
        if negative and not operator.negative:
            self.notes.append(
                Message(
                    "operator_minus",
                    "{operator}: cannot be negated with a minus; it was ignored",
                    operator=name,
                )
            )
        elif name == SORT:
            self.order = values[0]
        elif name in (BEFORE, AFTER, SIMILAR):
            self.restrictions = [other for other in self.restrictions if other.name != name]
            self.restrictions.append(Restriction(name, values[0]))
        else:
            self.restrictions += [Restriction(name, each, not negative) for each in values]
        return True


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Return the content of a quotation, and its end; 0: it is not closed."""
    places = [text.find(mark, start + 1) for mark in _CLOSING[text[start]]]
    end = min((place for place in places if place > 0), default=-1)
    return text[start + 1 : end].strip(), end + 1
