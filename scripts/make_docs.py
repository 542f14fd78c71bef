#!/usr/bin/env python3
"""Write the parts of docs/ that come from the code: settings, columns, commands.
`tests/test_docs.py` holds docs against it.

Usage: .venv/bin/python scripts/make_docs.py
"""

from __future__ import annotations

from pathlib import Path

from reference import PAGES

DOCS = Path(__file__).resolve().parent.parent / "docs"

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
        print(f"wrote docs/{name}")
