"""Test chunks of Markdown: budgets, completeness and identifiers."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from icu4py.breakers import WordBreaker

from lycosa.chunks.split import Chunk, blocks_of, plain_text, split_page
from lycosa.chunks.tokens import MIN_LIMIT, ChunkBudget, budget_of, estimated_tokens
from lycosa.core.errors import UsageError
from lycosa.text.identify import LANGUAGES
from tests.text.data import sib200

URL = "https://example.org/page"
PAGE = """\
# Guide

Start here.

## Install

Run this:

```sh
# not a heading
pip install x

pip check
```

### Windows

Use the `py` launcher.

## Use

> A quote.

- one
- two
"""
SENTENCE_SIGNS = ".!?…:;\"'”’»)。！？।۔؟།။၊"  # ၊: Unicode's Sentence_Terminal
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PLAIN_LINES = st.lists(
    st.one_of(WORDS, st.sampled_from(["", "## Title", "# Other", "A sentence. And another one!"])),
    max_size=30,
).map("\n".join)
LINES = st.lists(
    st.one_of(
        WORDS,
        st.sampled_from(["", "## Title", "```python", "```", "~~~", "| a | b |", "| - | - |"]),
        st.just("| cell one | cell two |"),
    ),
    max_size=40,
).map("\n".join)


def squeezed(text: str) -> str:
    return "".join(text.split())


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


def test_a_page_is_split_at_its_headings() -> None:
    chunks = split_page(URL, PAGE, ChunkBudget(200), "en")
    assert [(chunk.headings, chunk.position) for chunk in chunks] == [
        (("Guide",), 1),
        (("Guide", "Install"), 2),
        (("Guide", "Install", "Windows"), 3),
        (("Guide", "Use"), 4),
    ]
    assert "\n\n".join(texts(chunks)) + "\n" == PAGE
    assert chunks[1].text.endswith("pip check\n```")
    assert [chunk.previous for chunk in chunks] == ["", *(chunk.id for chunk in chunks[:-1])]
    assert [chunk.next for chunk in chunks] == [*(chunk.id for chunk in chunks[1:]), ""]
    assert all(chunk.size == estimated_tokens(chunk.text) for chunk in chunks)


def test_headings_without_text_belong_to_the_next_section() -> None:
    chunks = split_page(URL, "# A\n\n## B [link](http://x)\n\ntext\n\n## *C*", ChunkBudget(100))
    assert [(chunk.text, chunk.headings) for chunk in chunks] == [
        ("# A\n\n## B [link](http://x)\n\ntext", ("A", "B link")),
        ("## *C*", ("A", "C")),
    ]


def test_parts_of_code_blocks_and_tables_are_complete_markdown() -> None:
    lines = [f"value_{number} = compute({number})" for number in range(40)]
    rows = [f"| name {number} | {number} |" for number in range(40)]
    code = "```python\n" + "\n".join(lines) + "\n```"
    table = "| name | number |\n| --- | --- |\n" + "\n".join(rows)
    chunks = split_page(URL, f"{code}\n\n{table}", ChunkBudget(100))
    of_code = [chunk.text for chunk in chunks if "value_" in chunk.text]
    of_table = [chunk.text for chunk in chunks if "| name" in chunk.text]
    assert len(of_code) > 2
    assert len(of_table) > 2
    assert all(text.startswith("```python\n") and text.endswith("\n```") for text in of_code)
    assert [line for text in of_code for line in text.split("\n")[1:-1]] == lines
    assert all(text.startswith("| name | number |\n| --- | --- |\n") for text in of_table)
    assert [line for text in of_table for line in text.split("\n")[2:]] == rows


@settings(max_examples=200, deadline=None)
@given(LINES, st.integers(MIN_LIMIT, 200), st.sampled_from([len, estimated_tokens]))
def test_no_chunk_is_above_its_budget_and_ids_are_unique(
    markdown: str, limit: int, count: Callable[[str], int]
) -> None:
    chunks = split_page(URL, markdown, ChunkBudget(limit, count))
    assert all(chunk.size <= limit for chunk in chunks)
    assert all(chunk.text.strip() for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    missing = Counter(squeezed(markdown)) - Counter(squeezed("".join(texts(chunks))))
    assert not missing


@settings(max_examples=200, deadline=None)
@given(PLAIN_LINES, st.integers(MIN_LIMIT, 120))
def test_no_text_is_lost_or_repeated(markdown: str, limit: int) -> None:
    if re.search(r"^\s*(```|~~~|\|)", markdown, re.MULTILINE):
        return  # fences and table heads are repeated in each part
    chunks = split_page(URL, markdown, ChunkBudget(limit))
    assert squeezed("".join(texts(chunks))) == squeezed(markdown)


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_sentences_are_not_split_in_any_language(language: str) -> None:
    """A chunk ends with an entry of the corpus or with a sentence terminator."""
    sentences = sib200()[language][:60]
    text = " ".join(sentences)
    chunks = split_page(URL, text, ChunkBudget(2 * max(map(estimated_tokens, sentences))), language)
    assert squeezed("".join(texts(chunks))) == squeezed(text)
    ends = {squeezed(sentence)[-12:] for sentence in sentences}
    complete = sum(
        chunk.text[-1] in SENTENCE_SIGNS or squeezed(chunk.text)[-12:] in ends for chunk in chunks
    )
    assert len(chunks) > 10
    assert complete >= 0.9 * len(chunks)


def test_links_are_not_cut() -> None:
    link = "[relative (link)](http://127.0.0.1:9731/other/page.html?a=1&b=%282%29)"
    text = f"A note[1](http://127.0.0.1:9731/doc.html#fn1). See {link} and {link} there."
    chunks = split_page(URL, text, ChunkBudget(40))
    assert len(chunks) > 2
    assert sum(chunk.text.count(link) for chunk in chunks) == 2


@pytest.mark.parametrize("limit", [MIN_LIMIT, 40])
def test_words_are_not_cut_in_scripts_without_spaces(limit: int) -> None:
    text = "ผีเสื้อกลางคืนเป็นแมลงที่บินในเวลากลางคืน มันชอบแสงไฟ"
    chunks = split_page(URL, text, ChunkBudget(limit), "th")
    words = {*accumulate([0, *map(len, WordBreaker(text, "th"))])}
    assert len(chunks) > 1
    assert all(text.index(chunk.text) in words for chunk in chunks)


def test_text_without_boundaries_is_split() -> None:
    chunks = split_page(URL, "x" * 10_000 + " " + "字" * 3_000, ChunkBudget(100))
    assert sum(len(squeezed(chunk.text)) for chunk in chunks) == 13_000


def test_a_changed_paragraph_changes_one_id() -> None:
    """One word is replaced in one paragraph of a page with several sections."""
    generator = random.Random(7)
    sentences = sib200()["en"]
    one = changed = 0
    for _ in range(300):
        page = [
            f"## Section {number}" if number % 6 == 0 else " ".join(generator.sample(sentences, 3))
            for number in range(24)
        ]
        place = generator.choice([number for number in range(24) if number % 6])
        words = page[place].split()
        words[generator.randrange(len(words))] = "replaced"
        after = [*page[:place], " ".join(words), *page[place + 1 :]]
        before_chunks = split_page(URL, "\n\n".join(page), ChunkBudget(400), "en")
        after_chunks = split_page(URL, "\n\n".join(after), ChunkBudget(400), "en")
        after_ids = {chunk.id for chunk in after_chunks}
        different = [chunk for chunk in before_chunks if chunk.id not in after_ids]
        changed += 1
        one += len(different) == 1
        assert {chunk.headings for chunk in different} == {(f"Section {place // 6 * 6}",)}
    assert one / changed >= 0.97


def test_a_new_paragraph_changes_its_neighbourhood_only() -> None:
    generator = random.Random(8)
    sentences = sib200()["en"]
    paragraphs = [" ".join(sentences[start : start + 3]) for start in range(0, 600, 3)]
    before = {
        chunk.id for chunk in split_page(URL, "\n\n".join(paragraphs), ChunkBudget(400), "en")
    }
    for _ in range(30):
        place = generator.randrange(200)
        page = [*paragraphs[:place], "A new paragraph.", *paragraphs[place:]]
        after = {chunk.id for chunk in split_page(URL, "\n\n".join(page), ChunkBudget(400), "en")}
        assert len(before - after) <= 0.2 * len(before)


def test_ids_depend_on_url_and_text_only() -> None:
    one = split_page(URL, "# A\n\ntext\n\n# B\n\nmore", ChunkBudget(100))
    moved = split_page(URL, "# B\n\nmore\n\n# A\n\ntext", ChunkBudget(100))
    elsewhere = split_page("https://example.org/other", "# A\n\ntext", ChunkBudget(100))
    assert [chunk.id for chunk in one] == [chunk.id for chunk in reversed(moved)]
    assert elsewhere[0].id != one[0].id
    twice = split_page(URL, "# A\n\ntext\n\n# A\n\ntext", ChunkBudget(100))
    assert twice[0].id == one[0].id != twice[1].id


def test_a_code_fence_ends_at_its_own_length() -> None:
    assert list(blocks_of("````\na\n```\n\nb\n````\nc\n\nd")) == ["````\na\n```\n\nb\n````\nc", "d"]
    assert list(blocks_of("``` a``b ```\n\nc")) == ["``` a``b ```", "c"]


def test_plain_text_has_no_markup() -> None:
    markdown = r"**Bold** [a \[link\]](http://x/_y_) `code` snake_case 2 \* 3 ![alt](http://i)"
    assert plain_text(markdown) == "Bold a [link] code snake_case 2 * 3 alt"


@pytest.mark.parametrize(
    "text",
    [
        "a ",
        "a",
        "字",
        "*",
        "x\n",
        "# x\n",
        "# \n",
        "[",
        "[\\",
        "\\[",
        "[a](",
        "```\n",
        "|-",
        "x\n\n",
    ],
    ids=repr,
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    hostile = text * (50_000 // len(text))
    started = time.process_time()
    chunks = split_page(URL, hostile, ChunkBudget(200))
    plain_text(hostile)
    assert time.process_time() - started < 5
    assert all(chunk.size <= 200 for chunk in chunks)


def test_invalid_budgets_are_refused() -> None:
    with pytest.raises(UsageError, match="too small"):
        ChunkBudget(3)
    with pytest.raises(UsageError, match="not both"):
        budget_of(100, 100, default_tokens=200)
    with pytest.raises(UsageError, match="returns 1000"):
        split_page(URL, "text", ChunkBudget(100, lambda _: 1_000))
    assert budget_of(0, 500, default_tokens=200).count("abc") == 3
    assert budget_of(default_tokens=200).limit == 200


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("words", 2), ("a, b!", 4), ("日本語", 3), ("हिन्दी", 2)],
)
def test_estimated_tokens(text: str, tokens: int) -> None:
    assert estimated_tokens(text) == tokens
