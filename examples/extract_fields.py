"""Structured data: extract fields of each page by CSS selectors, and write them as JSON Lines.

    python extract_fields.py https://example.org/

Settings can also be in extracted/lycosa.toml, as [collection.fields]. After a change there,
`lycosa -w extracted reparse --fields` reads the archived pages again without fetching them.
"""

import json
import sys

from lycosa import Workspace

FIELDS = {
    "title": '{ css = "h1", required = true }',
    "published": '{ css = "time", attribute = "datetime", type = "date" }',
    "lead": '"article p:not(.date)"',
    "links": '{ css = "article a", type = "url", list = true }',
}


def main(url: str) -> None:
    """Crawl the site at `url`, write its items to articles.jsonl, and print the newest."""
    schema = ", ".join(f"{name} = {rule}" for name, rule in FIELDS.items())
    workspace = Workspace("extracted", [f"collection.fields={{{schema}}}"])
    workspace.crawl(url)
    report = workspace.export.items("articles.jsonl")
    print(f"{report.items} items, {report.left_out} without a title")
    with open("articles.jsonl", encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines]
    for item in sorted(items, key=lambda item: item["published"] or "", reverse=True)[:5]:
        print((item["published"] or "undated")[:10], item["title"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: extract_fields.py URL")
    main(sys.argv[1])
