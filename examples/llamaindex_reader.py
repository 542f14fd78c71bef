"""LlamaIndex: read the pages of a site as documents, split at their headings.

    pip install llama-index-core
    python llamaindex_reader.py https://example.org/docs/

The class can be copied. Documents are Markdown; their metadata cites the page and its time.
"""

import sys
from collections.abc import Iterator

from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.readers.base import BaseReader

from lycosa import Workspace


class LycosaReader(BaseReader):
    """The stored pages of a workspace; `lazy_load_data` may name a collection or a site."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def lazy_load_data(self, collection: str = "", site: str = "") -> Iterator[Document]:
        for page in self.workspace.pages(collection=collection, site=site):
            stored = self.workspace.archive.markdown(page.url)
            metadata = {
                "url": page.url,
                "title": stored.title,
                "fetched_at": stored.version.fetched_at,
            }
            yield Document(id_=page.url, text=stored.markdown, metadata=metadata)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: llamaindex_reader.py URL")
    workspace = Workspace("llamaindex")
    workspace.crawl(sys.argv[1], scope="prefix", max_pages=1_000)
    documents = LycosaReader(workspace).load_data()
    nodes = MarkdownNodeParser().get_nodes_from_documents(documents)
    print(f"{len(documents)} documents, {len(nodes)} nodes")
    for node in nodes[:5]:
        print(f"{node.metadata['url']}: {node.get_content()[:60]!r}")
