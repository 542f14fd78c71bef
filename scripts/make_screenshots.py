#!/usr/bin/env python3
"""Take the pictures of the README: `make demo SERVE=0`, then this, with Chromium. Writes
docs/images/*.png.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE = ROOT / "demo-data"
PICTURES = (
    ("search.png", "/?q=wolf+spider+mother", 1200, 860),
    ("crawl.png", "/crawl", 1200, 900),
    ("site.png", "/site?name={host}", 1200, 1160),
)


def main() -> int:
    """0: all are taken."""
    if not (WORKSPACE / "workspace.json").exists():
        print("there is no demo-data: `make demo SERVE=0` makes it", file=sys.stderr)
        return 1
    command = [
        sys.executable,
        "-m",
        "lycosa.cli.main",
        "-w",
        str(WORKSPACE),
        "serve",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
            if found is None:
                return 1
            for name, path, width, height in PICTURES:
                flags = [
                    "--headless",
                    "--disable-gpu",
                    "--hide-scrollbars",
                    *(["--no-sandbox"] if os.geteuid() == 0 else []),
                ]
                taken = [
                    f"--window-size={width},{height}",
                    f"--screenshot={ROOT / 'docs' / 'images' / name}",
                    found[0] + path.format(host="127.0.2.1"),
                ]
                subprocess.run(
                    ["chromium", *flags, *taken], check=True, capture_output=True, timeout=120
                )
                print(f"docs/images/{name}")
        finally:
            server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
