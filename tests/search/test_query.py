from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lycosa.search.query import LONGEST_QUERY, MOST_WORDS, Clause, ParsedQuery, parse_query


def words(*texts: str) -> tuple[Clause, ...]:
    return tuple(Clause(text) for text in texts)


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
        ('"never closed', ParsedQuery((Clause("never closed", True),))),
        ('""', ParsedQuery()),
        ('"', ParsedQuery()),
        ("a -b", ParsedQuery(words("a"), words("b"))),
        ('a -"b c"', ParsedQuery(words("a"), (Clause("b c", True),))),
        ("a - b", ParsedQuery(words("a", "-", "b"))),
        ("state-of-the-art", ParsedQuery(words("state-of-the-art"))),
        ("-", ParsedQuery(words("-"))),
        ("site:Docs.Example.org x", ParsedQuery(words("x"), sites=("docs.example.org",))),
        ("site:https://example.org:8080/a?b x", ParsedQuery(words("x"), sites=("example.org",))),
        ("site:*.example.org", ParsedQuery(sites=("example.org",))),
        ("-site:example.org x", ParsedQuery(words("x"), unwanted_sites=("example.org",))),
        ("site:a.test site:b.test", ParsedQuery(sites=("a.test", "b.test"))),
        ("site: x", ParsedQuery(words("site:", "x"))),
        ("site:/ x", ParsedQuery(words("site:/", "x"))),
        ("lang:DE Haus", ParsedQuery(words("Haus"), language="de")),
        ("language:pt-BR casa", ParsedQuery(words("casa"), language="pt")),
        ("lang:?? casa", ParsedQuery(words("lang:??", "casa"))),
        ("std::vector a:b", ParsedQuery(words("std::vector", "a:b"))),
    ],
)
def test_queries(text: str, parsed: ParsedQuery) -> None:
    assert parse_query(text) == parsed


def test_long_queries_are_cut_and_say_so() -> None:
    parsed = parse_query(" ".join(f"w{number}" for number in range(100)))
    assert len(parsed.wanted) == MOST_WORDS
    assert parsed.notes == (f"only the first {MOST_WORDS} words were looked at",)
    parsed = parse_query("x" * 10_000)
    assert len(parsed.wanted[0].text) == LONGEST_QUERY
    assert parsed.notes == (f"only the first {LONGEST_QUERY} characters were looked at",)


@given(st.text(alphabet=st.one_of(st.sampled_from(' "-“”„«»「」:site:lang:.\u2212'), st.characters(exclude_categories=())), max_size=120))
def test_never_raises_and_loses_no_word(text: str) -> None:
    parsed = parse_query(text)
    for clause in (*parsed.wanted, *parsed.unwanted):
        assert clause.text
        assert clause.text in text
