#!/usr/bin/env python3
"""Write the parts of docs/reference/ that come from the code: settings, columns, commands.
`tests/test_docs.py` holds docs against it.

Usage: .venv/bin/python scripts/make_docs.py
"""

from __future__ import annotations

from pathlib import Path

from reference import PAGES

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

if __name__ == "__main__":
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        print(f"wrote docs/reference/{name}")
