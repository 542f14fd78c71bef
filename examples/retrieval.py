"""Retrieval for a language model: the best passages for a question with their sources.

    python retrieval.py https://example.org/docs/ how do I reset my password

The prompt is printed; send it to the model of your choice. The folder `markdown` then contains each
page as Markdown with front matter, for your own index.
"""

import sys

from lycosa import Workspace

MAX_SOURCES = 4
MAX_CHARACTERS = 1_200
"""Of each source."""


def passages(text: str, words: set[str]) -> str:
    """Return the paragraphs of a page with the most of these words, in their order."""
    paragraphs = [each for each in text.split("\n") if each.strip()]
    ranked = sorted(paragraphs, key=lambda text: -sum(word in text.lower() for word in words))
    best: list[str] = []
    for paragraph in ranked:
        if sum(map(len, best)) + len(paragraph) <= MAX_CHARACTERS or not best:
            best.append(paragraph[:MAX_CHARACTERS])
    return "\n".join(sorted(best, key=paragraphs.index))


def main(url: str, *words: str) -> None:
    """Crawl below `url`, write its Markdown, and print a prompt for a question."""
    question = " ".join(words)
    workspace = Workspace("retrieval")
    workspace.crawl(url, scope="prefix", max_pages=1_000)
    written = workspace.export.markdown("markdown")
    print(f"{written.pages} pages in {written.folder}", file=sys.stderr)
    print("Answer the question from the sources, and cite them as [1], [2] …\n")
    for number, hit in enumerate(workspace.search(question, count=MAX_SOURCES), 1):
        matches = {part.text.lower() for part in hit.fragments if part.match}
        print(f"[{number}] {hit.title}\n{hit.url}\n{passages(hit.main_text, matches)}\n")
    print(f"Question: {question}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: retrieval.py URL WORD...")
    main(*sys.argv[1:])
