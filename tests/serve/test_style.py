"""The colours: every pair of text and ground that the style sheet makes is readable (WCAG 2.2,
1.4.3: 4.5 to 1).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lycosa.serve

STYLE = (Path(lycosa.serve.__path__[0]) / "web" / "static" / "style.css").read_text(
    encoding="utf-8"
)
PAIRS = [
    (text, ground) for text in ("ink", "soft", "link", "seen", "accent") for ground in ("paper", "panel")
] + [("on-accent", "accent"), ("on-mark", "mark")]  # fmt: skip


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb as WCAG defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_measured_right() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_is_readable(scheme: int, text: str, ground: str) -> None:
    colours = dict(
        re.findall(
            r"--([\w-]+): (#[0-9a-f]{6});", STYLE.split("prefers-color-scheme: dark")[scheme]
        )
    )
    assert contrast(colours[text], colours[ground]) >= 4.5
