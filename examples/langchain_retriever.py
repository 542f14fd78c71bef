"""LangChain: load the pages of a site as documents, and retrieve those for a question.

    pip install langchain-core
    python langchain_retriever.py https://example.org/docs/ how do I reset my password

Both classes can be copied. Documents are Markdown; their metadata cites the page and its time.
"""

import sys
from collections.abc import Iterator
from typing import Any

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from lycosa import Workspace


def document(workspace: Workspace, url: str) -> Document:
    """Return the newest version of a stored page."""
    page = workspace.archive.markdown(url)
    metadata = {"source": url, "title": page.title, "fetched_at": page.version.fetched_at}
    return Document(page_content=page.markdown, metadata=metadata)


class LycosaLoader(BaseLoader):
    """All stored pages, one after another."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def lazy_load(self) -> Iterator[Document]:
        for page in self.workspace.pages():
            yield document(self.workspace, page.url)


class LycosaRetriever(BaseRetriever):
    """The best pages for a question."""

    workspace: Any
    count: int = 4

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        hits = self.workspace.search(query, count=self.count)
        return [document(self.workspace, hit.url) for hit in hits]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: langchain_retriever.py URL WORD...")
    site = Workspace("langchain")
    site.crawl(sys.argv[1], scope="prefix", max_pages=1_000)
    print(f"{sum(1 for _ in LycosaLoader(site).lazy_load())} documents")
    for found in LycosaRetriever(workspace=site).invoke(" ".join(sys.argv[2:])):
        print(f"{found.metadata['source']} ({len(found.page_content)} characters)")
