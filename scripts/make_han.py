"""Make src/lycosa/text/han.txt: each Traditional character that has one Simplified form, in two
lines of equal length.

    PYTHONPATH=. .venv/bin/python scripts/make_han.py

Source: the transliterator Traditional-Simplified of the Unicode CLDR, asked through the ICU library
that the wheel of icu4py bundles (which exposes no transliterators). Unicode License v3.
"""

from __future__ import annotations

from pathlib import Path

from tests.text.icu import Transliterator

OUTPUT = Path(__file__).resolve().parents[1] / "src/lycosa/text/han.txt"


def main() -> None:
    simplify = Transliterator("Traditional-Simplified")
    pairs = []
    for start, stop in ((0x3400, 0xA000), (0xF900, 0xFB00)):
        for code in range(start, stop):
            simple = simplify(chr(code))
            if len(simple) == 1 and simple != chr(code):
                pairs.append((chr(code), simple))
    OUTPUT.write_text(
        "".join(old for old, _ in pairs) + "\n" + "".join(new for _, new in pairs) + "\n",
        encoding="utf-8",
    )
    print(f"{len(pairs)} characters")


if __name__ == "__main__":
    main()
