"""Site search: crawl a site, keep the index up to date, and print hits as JSON for your own pages.

    python site_search.py https://example.org/ opening hours

Run it without words every night, for example from cron: only pages that are older than a day are
requested again, and unchanged ones are not downloaded. `lycosa -w site-search serve` serves the
same index as a search page and as a JSON API.
"""

import json
import sys
from html import escape
from typing import Any

from lycosa import Workspace

SETTINGS = {"collection": {"recrawl": "age", "max_age": "1d"}}


def html(part: Any) -> str:
    """Return a part of a snippet as HTML: the words that match in bold."""
    return f"<b>{escape(part.text)}</b>" if part.match else escape(part.text)


def main(url: str, *words: str) -> None:
    """Crawl the site at `url`, and search it for `words`."""
    workspace = Workspace("site-search", SETTINGS)
    report = workspace.crawl(url)
    print(f"{report.pages} new or changed pages", file=sys.stderr)
    for failed, reason in report.failures.items():
        print(f"{failed}: {reason}", file=sys.stderr)
    if not words:
        return
    results = workspace.search(" ".join(words), count=5, facets=["language"])
    hits = [
        {
            "url": hit.url,
            "title": hit.title,
            "language": hit.language,
            "snippet": "".join(map(html, hit.fragments)),
        }
        for hit in results
    ]
    languages = {each.value: each.count for each in results.facets["language"]}
    answer = {"total": results.total, "languages": languages, "hits": hits}
    print(json.dumps(answer, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: site_search.py URL [WORD]...")
    main(*sys.argv[1:])
