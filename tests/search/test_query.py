"""Parsing of queries."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lycosa.search.query.query import (
    MAX_QUERY_CHARACTERS,
    MAX_WORDS,
    Clause,
    ClauseGroup,
    ParsedQuery,
    Restriction,
    clauses,
    parse_query,
)
from lycosa.search.query.syntax import BY_NAME, FORMS, OPERATORS, Operator


def words(*texts: str) -> tuple[Clause, ...]:
    return tuple(Clause(text) for text in texts)


def only(name: str, *values: str) -> tuple[Restriction, ...]:
    return tuple(Restriction(name, value) for value in values)


def either(*texts: str) -> ClauseGroup:
    return ClauseGroup(words(*texts))


def both(*texts: str) -> ClauseGroup:
    return ClauseGroup(words(*texts), every=True)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("", ParsedQuery()),
        ("  \t\n", ParsedQuery()),
        ("event loop", ParsedQuery(words("event", "loop"))),
        ('"event loop" python', ParsedQuery((Clause("event loop", True), Clause("python")))),
        ("“event loop”", ParsedQuery((Clause("event loop", True),))),
        ("„eine Schleife“", ParsedQuery((Clause("eine Schleife", True),))),
        ("«boucle»", ParsedQuery((Clause("boucle", True),))),
        ("「人権」", ParsedQuery((Clause("人権", True),))),
        ('""', ParsedQuery()),
        ("a -b", ParsedQuery(words("a"), words("b"))),
        ('a -"b c"', ParsedQuery(words("a"), (Clause("b c", True),))),
        ("a - b", ParsedQuery(words("a", "-", "b"))),
        ("state-of-the-art", ParsedQuery(words("state-of-the-art"))),
        ("-", ParsedQuery(words("-"))),
        (
            "site:Docs.Example.org x",
            ParsedQuery(words("x"), restrictions=only("site", "docs.example.org")),
        ),
        (
            "site:https://example.org:8080/a?b x",
            ParsedQuery(words("x"), restrictions=only("site", "example.org/a")),
        ),
        ("site:*.example.org", ParsedQuery(restrictions=only("site", "example.org"))),
        (
            "-site:example.org x",
            ParsedQuery(words("x"), restrictions=(Restriction("site", "example.org", False),)),
        ),
        ("site:a.test site:b.test", ParsedQuery(restrictions=only("site", "a.test", "b.test"))),
        ("site: x", ParsedQuery(words("site:", "x"))),
        ("lang:DE Haus", ParsedQuery(words("Haus"), restrictions=only("lang", "de"))),
        ("lang:fil,nb bahay", ParsedQuery(words("bahay"), restrictions=only("lang", "tl", "no"))),
        ("language:pt-BR casa", ParsedQuery(words("casa"), restrictions=only("lang", "pt"))),
        ("std::vector a:b", ParsedQuery(words("std::vector", "a:b"))),
        ("a OR b", ParsedQuery((either("a", "b"),))),
        ("a b OR c | d e", ParsedQuery((Clause("a"), either("b", "c", "d"), Clause("e")))),
        (
            "a b|c||d e|",
            ParsedQuery((Clause("a"), either("b", "c", "d"), Clause("e"), Clause("|"))),
        ),
        (
            "link:http://x.org/?a|b",
            ParsedQuery((), (), (Restriction("link", "http://x.org/?a|b"),)),
        ),
        ("a AND b", ParsedQuery(words("a", "b"))),
        ('"OR" gate -OR', ParsedQuery((Clause("OR", phrase=True), Clause("gate")), words("OR"))),
        ("gate NOT", ParsedQuery(words("gate", "NOT"))),
        ("a or b", ParsedQuery(words("a", "or", "b"))),
        ("(a b) OR (c d)", ParsedQuery((ClauseGroup((both("a", "b"), both("c", "d"))),))),
        ("(a OR b) c", ParsedQuery((either("a", "b"), Clause("c")))),
        ("-(a b) c", ParsedQuery(words("c"), (both("a", "b"),))),
        ("a OR -b", ParsedQuery(words("a"), words("b"))),
        ("((((a b", ParsedQuery((both("a", "b"),))),
        ("a ) b", ParsedQuery(words("a", "b"))),
        ("print(x) (print(x) OR y)", ParsedQuery((Clause("print(x)"), either("print(x)", "y")))),
        ("()", ParsedQuery()),
        (
            "program* p* 人*",
            ParsedQuery((Clause("program", prefix=True), Clause("p*"), Clause("人", prefix=True))),
        ),
        ("* ** a**", ParsedQuery(words("*", "**", "a**"))),
        ("intitle:loop", ParsedQuery((Clause("loop", within="intitle"),))),
        (
            'title:"event loop" -intitle:x',
            ParsedQuery(
                (Clause("event loop", True, within="intitle"),), (Clause("x", within="intitle"),)
            ),
        ),
        (
            "intitle:(a OR b*)",
            ParsedQuery(
                (ClauseGroup((Clause("a", within="intitle"), Clause("b*", within="intitle"))),)
            ),
        ),
        (
            "inurl:a-b inanchor:c",
            ParsedQuery((Clause("a-b", within="inurl"), Clause("c", within="inanchor"))),
        ),
        (
            "site:example.org/Docs/ x",
            ParsedQuery(words("x"), restrictions=only("site", "example.org/Docs")),
        ),
        (
            "site:bücher.example x",
            ParsedQuery(words("x"), restrictions=only("site", "xn--bcher-kva.example")),
        ),
        (
            "site:a.test OR site:b.test x",
            ParsedQuery(words("x"), restrictions=only("site", "a.test", "b.test")),
        ),
        ("(site:a.test x) y", ParsedQuery(words("x", "y"), restrictions=only("site", "a.test"))),
        (
            "lang:de,fr -lang:en",
            ParsedQuery(restrictions=(*only("lang", "de", "fr"), Restriction("lang", "en", False))),
        ),
        ("filetype:.PDF ext:htm", ParsedQuery(restrictions=only("filetype", "pdf", "html"))),
        (
            "type:NewsArticle,forum -type:Product",
            ParsedQuery(
                restrictions=(
                    *only("type", "newsarticle", "forum"),
                    Restriction("type", "product", False),
                )
            ),
        ),
        ('author:"Doe, Jané" x', ParsedQuery(words("x"), restrictions=only("author", "doe+jane"))),
        ("author:O’Neil", ParsedQuery(restrictions=only("author", "o+neil"))),
        ("collection:news-de", ParsedQuery(restrictions=only("collection", "news-de"))),
        ("link:Example.org", ParsedQuery(restrictions=only("link", "example.org"))),
        ("link:example.org/A?b=1,2", ParsedQuery(restrictions=only("link", "example.org/A?b=1,2"))),
        (
            "link:https://Example.org/A",
            ParsedQuery(restrictions=only("link", "https://example.org/A")),
        ),
        (
            "after:2025 before:2026-3",
            ParsedQuery(restrictions=(*only("after", "2025-01-01"), *only("before", "2026-03-01"))),
        ),
        ("before:2025 before:2026-02-28", ParsedQuery(restrictions=only("before", "2026-02-28"))),
        ("x sort:DATE", ParsedQuery(words("x"), order="date")),
    ],
)
def test_queries(text: str, parsed: ParsedQuery) -> None:
    assert parse_query(text) == parsed


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("OR gate", words("OR", "gate")),
        ("gate OR", words("gate", "OR")),
        ("(OR gate)", (both("OR", "gate"),)),
        ("(gate OR) x", (both("gate", "OR"), Clause("x"))),
        ("a OR OR b", (Clause("a"), either("OR", "b"))),
        ("a AND", words("a", "AND")),
    ],
)
def test_or_that_joins_nothing_is_a_word_with_a_note(
    text: str, required: tuple[Clause | ClauseGroup, ...]
) -> None:
    word = "AND" if "AND" in text else "OR"
    note = f"{word} was searched for as a word, because it is not between two words"
    assert parse_query(text) == ParsedQuery(required, notes=(note,))


@pytest.mark.parametrize(
    "text",
    [
        "site:/ x",
        "lang:?? x",
        "before:yesterday x",
        "after:2026-13 x",
        "sort:size x",
        "filetype:a.b x",
        "type:a1 x",
        "author:?! x",
        "link:/ x",
    ],
)
def test_invalid_operator_values_are_searched_as_words_with_a_note(text: str) -> None:
    parsed = parse_query(text)
    assert parsed.required == words(*text.split())
    assert parsed.restrictions == ()
    (note,) = parsed.notes
    name = text.partition(":")[0]
    assert note.startswith(f"{name}: needs ")
    assert BY_NAME[name].wants in note


def test_negated_operator_without_negation_is_ignored_with_a_note() -> None:
    parsed = parse_query("-before:2020 x")
    assert (parsed.required, parsed.restrictions) == (words("x"), ())
    assert parsed.notes == ("before: cannot be negated with a minus; it was ignored",)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ('"', ParsedQuery()),
        ('"never closed', ParsedQuery(words("never", "closed"))),
        ('"a b" "c d', ParsedQuery((Clause("a b", True), *words("c", "d")))),
        ('(a b ")', ParsedQuery((both("a", "b"),))),
        ('a OR "b -“c', ParsedQuery((either("a", "b"),), words("c"))),
        ('intitle:"a', ParsedQuery((Clause("a", within="intitle"),))),
        ('author:"Jane Doe', ParsedQuery(words("Doe"), restrictions=only("author", "jane"))),
    ],
)
def test_unclosed_quotation_marks_are_ignored_with_a_note(text: str, parsed: ParsedQuery) -> None:
    notes = ("a quotation mark that is not closed was ignored",)
    assert parse_query(text) == replace(parsed, notes=notes)


@pytest.mark.parametrize(
    "example",
    [*(example for _, _, example in FORMS), *(operator.example for operator in OPERATORS)],
)
def test_documented_examples_are_valid(example: str) -> None:
    parsed = parse_query(example)
    assert parsed.notes == ()
    assert parsed.required or parsed.restrictions or parsed.order


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.names[0])
def test_all_names_of_an_operator_are_equivalent(operator: Operator) -> None:
    value = operator.example.partition(":")[2]
    forms = {parse_query(f"{name}:{value} x") for name in operator.names} | {
        parse_query(f"{operator.names[0].upper()}:{value} x")
    }
    assert len(forms) == 1


def test_long_queries_are_truncated_with_a_note() -> None:
    parsed = parse_query(" ".join(f"w{number}" for number in range(300)))
    assert len(parsed.required) == MAX_WORDS
    assert parsed.notes == (f"only the first {MAX_WORDS} words of the query were used",)
    parsed = parse_query("x" * 10_000)
    assert [len(clause.text) for clause in clauses(parsed.required)] == [MAX_QUERY_CHARACTERS]
    assert parsed.notes == (
        f"only the first {MAX_QUERY_CHARACTERS} characters of the query were used",
    )


_PIECES = st.sampled_from(
    [
        *' "-“”„«»「」:.()*|,\u2212',
        " OR ",
        " AND ",
        *(f"{name}:" for name in BY_NAME),
        "2026-01",
        "example.org/a",
        "日本",
        "de",
    ]
)


@pytest.mark.proves("isolation-any-input")
@given(
    st.lists(
        st.one_of(_PIECES, st.text(alphabet=st.characters(exclude_categories=()), max_size=6)),
        max_size=40,
    ).map("".join)
)
@example("author:0¼")
@settings(max_examples=300)
def test_parser_never_raises_and_adds_no_terms(text: str) -> None:
    parsed = parse_query(text)
    assert hash(parsed) == hash(pickle.loads(pickle.dumps(parsed)))
    for clause in clauses((*parsed.required, *parsed.excluded)):
        assert clause.text
        assert clause.text in text
    for restriction in parsed.restrictions:
        assert restriction.value
        assert parse_query(f"{restriction.name}:{restriction.value}").restrictions == (
            Restriction(restriction.name, restriction.value),
        )
