"""The python-doc site with every page as large as the web's mean (240 KB): a target of
`bench.crawl`.

Each page gets the bodies of the pages after it in its folder until it is large enough. So markup
and links are real ones, all links lead to pages that exist, and the set of pages is that of
python-doc.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.servers.sites import Site

NAME = "large-pages"
ADDRESS = "127.0.1.17"
SIZE = 240_000
"""Bytes, before compression: the mean of the web's HTML pages (HTTP Archive)."""

_BODY = re.compile(rb"<body[^>]*>(.*)</body>", re.DOTALL)


def lay(site: Site, folder: Path, size: int = SIZE) -> Site:
    """Make the site out of another one in `folder`, which must not exist yet. What is no HTML is
    linked to.
    """
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
    """A page with further bodies at the end of its own, as many as it takes; over and over where
    they are few.
    """
    end = page.rfind(b"</body>")
    if end < 0 or not any(others):
        return page
    parts, length, number = [page[:end]], len(page), 0
    while length < size:
        parts.append(others[number % len(others)])
        length += len(parts[-1])
        number += 1
    return b"".join((*parts, page[end:]))
