"""Retrieval for a language model: the best passages for a question with their sources.

    python retrieval.py https://example.org/docs/ how do I reset my password

The prompt is printed; send it to the model of your choice. The passages come from the web: the
model must treat them as data, not as instructions. The folder `markdown` then contains each page as
Markdown with front matter, and `chunks` all pages in chunks, for your own index. A second call
writes only what changed.
"""

import sys

from lycosa import Workspace

MAX_PASSAGES, MAX_TOKENS = 4, 1_000
"""Of the prompt."""


def main(url: str, *words: str) -> None:
    """Crawl below `url`, write its chunks, and print a prompt for a question."""
    question = " ".join(words)
    workspace = Workspace("retrieval")
    workspace.crawl(url, scope="prefix", max_pages=1_000)
    written = workspace.export.markdown("markdown")
    print(f"{written.pages} pages in {written.folder}", file=sys.stderr)
    chunks = workspace.export.chunks("chunks")
    print(f"{chunks.added} chunks added, {chunks.removed} removed", file=sys.stderr)
    print("Answer the question from the sources, and cite them as [1], [2] …\n")
    found = workspace.texts.passages(question, count=MAX_PASSAGES, budget=MAX_TOKENS)
    for number, passage in enumerate(found.passages, 1):
        place = " › ".join((passage.title, *passage.headings))
        print(f"[{number}] {place} ({passage.fetched_at[:10]})\n{passage.url}\n{passage.text}\n")
    print(f"Question: {question}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: retrieval.py URL WORD...")
    main(*sys.argv[1:])
