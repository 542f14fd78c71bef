"""Make src/lycosa/text/ngrams.txt, the weights of `lycosa.text.ngrams` (10 s).

    PYTHONPATH=. .venv/bin/python scripts/train_language.py

Sources, all outside the repository (LYCOSA_TEST_DATA or ../shared/data): the Universal Declaration
of Human Rights (unicode-org/udhr) and the first half of SIB-200 by `index_id` (dadelani/sib-200,
CC BY-SA 4.0), so that sentences of one article are in one half. The second half is for tests.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from tests.text.data import declaration, sib200_numbered

from lycosa.text.ngrams import STEP, ZERO, ngrams

OUTPUT = Path(__file__).resolve().parents[1] / "src/lycosa/text/ngrams.txt"
SMOOTHING = 0.1  # occurrences that are added to each count
MIN_COUNT = 2  # in all languages of a script together
SCRIPTS = {
    "en de fr es it pt id ms vi tl": 16_000,
    "ru mn kk ky tg": 5_000,
    "ar fa ur ps": 5_000,
    "hi ne": 3_000,
}
"""Languages of a script, and the number of n-grams that are kept, by information gain."""


def counts_of(language: str) -> Counter[str]:
    sentences = [text for _, text in sib200_numbered(language)]
    texts = [*sentences[: len(sentences) // 2], *declaration(language).values()]
    return Counter(ngram for text in texts for ngram in ngrams(text))


def section(languages: list[str], size: int) -> str:
    counts = [counts_of(language) for language in languages]
    total = sum(counts, Counter[str]())
    kept = sorted(ngram for ngram, count in total.items() if count >= MIN_COUNT)
    matrix = np.array([[each[ngram] for each in counts] for ngram in kept], dtype=float)
    shares = (matrix + SMOOTHING) / (matrix.sum(0) + SMOOTHING * len(kept))
    logs = np.log(shares)
    gain = (shares * (logs - np.log(shares.mean(1, keepdims=True)))).sum(1)
    weights = np.round((logs - logs.mean(1, keepdims=True)) / STEP).astype(int) + ZERO
    best = sorted(np.argsort(-gain, kind="stable")[:size])
    lines = [f"{kept[row]} {''.join(map(chr, weights[row]))}" for row in best]
    return "\n".join([" ".join(languages), *lines])


def main() -> None:
    sections = [section(languages.split(), size) for languages, size in SCRIPTS.items()]
    OUTPUT.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    print(f"{OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
