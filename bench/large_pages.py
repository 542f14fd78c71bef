"""The python-doc site with large pages (240 KB): a target of `bench.crawl`.

Each page gets the bodies of the following pages in its folder until it is large enough. So markup
and links are real, all links lead to existing pages, and the URLs are those of python-doc.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from pathlib import Path

from tests.servers.sites import Site

NAME = "large-pages"
ADDRESS = "127.0.1.17"
SIZE = 240_000  # bytes before compression: the mean of HTML pages on the web (HTTP Archive)

_BODY = re.compile(rb"<body[^>]*>(.*)</body>", re.DOTALL)


def lay(site: Site, folder: Path, size: int = SIZE) -> Site:
    """Create the site from another one in a new folder; other files are symbolic links."""
    shutil.copytree(site.root, folder, copy_function=os.symlink)
    for place in sorted({path.parent for path in site.root.rglob("*.html")}):
        pages = sorted(place.glob("*.html"))
        bodies = [_body(page.read_bytes()) for page in pages]
        for number, page in enumerate(pages):
            target = folder / page.relative_to(site.root)
            target.unlink()
            target.write_bytes(
                _padded(page.read_bytes(), bodies[number + 1 :] + bodies[:number], size)
            )
    return Site(NAME, folder, ADDRESS)


def _body(page: bytes) -> bytes:
    match = _BODY.search(page)
    return match[1] if match else b""


def _padded(page: bytes, others: list[bytes], size: int) -> bytes:
    """Append other bodies to a page until it is large enough; they may repeat."""
    end = page.rfind(b"</body>")
    if end < 0 or not any(others):
        return page
    bodies, added = itertools.cycle(others), b""
    while len(page) + len(added) < size:
        added += next(bodies)
    return page[:end] + added + page[end:]
