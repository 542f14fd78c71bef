"""Make src/lycosa/text/malay.txt: how much each word speaks for Indonesian or for Malay.

    PYTHONPATH=. .venv/bin/python scripts/make_malay.py [first|second]

Sources, all outside the repository (LYCOSA_TEST_DATA or ../shared/data): the two translations of
the Universal Declaration of Human Rights (unicode-org/udhr), the words that only one of the two has
in Wiktionary's translations of English words (open-dsl-dict/wiktionary-dict, CC BY-SA 3.0), and one
half of SIB-200 (dadelani/sib-200, CC BY-SA 4.0): the `first` by `index_id`, so that articles are
not parted and the other half stays a test.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.text.data import DATA, declaration, sib200_numbered

OUTPUT = Path(__file__).resolve().parents[1] / "src/lycosa/text/malay.txt"
SMOOTHING = 0.5  # occurrences that each language is credited with
LISTED = 0.5  # occurrences that standing in one Wiktionary list is worth
MOST = 3  # occurrences in the Declaration that count: it repeats itself
LEAST = 0.3  # log-odds below which a word is left out
_WORD = re.compile("[a-z]+")
_NOTES = re.compile(r"\{[^}]*\}|\([^)]*\)|\[[^]]*\]")


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def listed(language: str) -> set[str]:
    lines = (DATA / "wiktionary" / f"en-{language}.txt").read_text(encoding="utf-8").split("\n")
    return {
        word
        for line in lines
        if "::" in line
        for word in words(_NOTES.sub(" ", line.split("::", 1)[1]))
    }


def counted(language: str, sentences: Iterable[str], only_here: set[str]) -> Counter[str]:
    counts: Counter[str] = Counter(words(" ".join(declaration(language).values())))
    found: dict[str, float] = {word: min(count, MOST) for word, count in counts.items()}
    for sentence in sentences:
        for word in set(words(sentence)):
            found[word] = found.get(word, 0) + 1
    for word in only_here:
        found[word] = found.get(word, 0) + LISTED
    return Counter(found)  # counts in halves


def weights(half: str) -> dict[str, float]:
    """Word -> log-odds, positive for Indonesian."""
    rows = {language: sib200_numbered(language) for language in ("id", "ms")}
    cut = len(rows["id"]) // 2
    part = slice(0, cut) if half == "first" else slice(cut, None)
    lists = {language: listed(language) for language in rows}
    id_, ms = (
        counted(
            language, [text for _, text in rows[language][part]], lists[language] - lists[other]
        )
        for language, other in (("id", "ms"), ("ms", "id"))
    )
    odds = {
        word: math.log((id_[word] + SMOOTHING) / (ms[word] + SMOOTHING)) for word in {*id_, *ms}
    }
    return {word: round(value, 1) for word, value in odds.items() if abs(value) >= LEAST}


def main() -> None:
    by_weight: dict[float, list[str]] = {}
    for word, weight in weights(sys.argv[1] if len(sys.argv) > 1 else "first").items():
        by_weight.setdefault(weight, []).append(word)
    lines = [f"{weight:.1f} {' '.join(sorted(by_weight[weight]))}" for weight in sorted(by_weight)]
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="ascii")
    print(f"{sum(map(len, by_weight.values()))} words, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
