#!/usr/bin/env python3
"""Write the parts of docs/reference/ that come from the code: settings, columns, the promises
that tests prove. `tests/test_docs.py` holds docs against it.

Usage: .venv/bin/python scripts/make_docs.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the package tests

from reference import PAGES

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

if __name__ == "__main__":
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")
        print(f"wrote docs/reference/{name}")
