"""Build generations with tantivy in a private folder.

The folder exists as long as the builder, so that updates during a crawl do not open an index and
start threads each time, and tantivy merges segments in the background. A generation is made of hard
links to the files of the last commit.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tantivy

from lycosa.index import generation as generations
from lycosa.index.schema import (
    COLLECTION,
    ID,
    LANGUAGE,
    TEXT,
    IndexedPage,
    document,
    schema,
    stored,
    stored_text,
    text_of,
    url_id,
)
from lycosa.index.snippets.texts import files
from lycosa.index.snippets.writer import TextWriter
from lycosa.text.analyze import Analysis

_META, _MANAGED = "meta.json", ".managed.json"
_BATCH = 50_000  # documents whose text keys are read at once
# a merge rarely ends between two reads of meta.json
_ATTEMPTS = 100
# bytes per thread that tantivy accepts
_MIN_HEAP, _MAX_HEAP = 15_000_000, 4_293_967_294


class IndexBuilder:
    """Adds and removes documents, and builds generations. Not thread-safe."""

    def __init__(
        self,
        index_folder: Path,
        base: Path | None,
        *,
        heap_bytes: int,
        threads: int,
        analysis: Analysis = Analysis(),
    ) -> None:
        """Start from a published generation (`base`), or from an empty index."""
        self._parent = index_folder
        self._analysis = analysis
        self.path = Path(
            tempfile.mkdtemp(prefix=f"{generations.BUILD_PREFIX}work-", dir=index_folder)
        )
        if base is not None:
            names = index_files(base)
            for name in names:
                _place(base / name, self.path / name)
            # files that tantivy may delete after a merge
            (self.path / _MANAGED).write_text(json.dumps(names))
            for path in files(base):
                _place(path, self.path / path.name)
        self._texts = TextWriter(self.path)
        self._index = tantivy.Index(schema(), path=str(self.path))
        self._writer_settings = (
            min(max(heap_bytes, threads * _MIN_HEAP), threads * _MAX_HEAP),
            threads,
        )
        self._writer = self._index.writer(*self._writer_settings)

    def put(self, page: IndexedPage, *, first: bool = False) -> None:
        """Replace the document of a URL. `first`: the first change of the URL since a commit."""
        self.remove(page.url_key, first=first)
        text = stored_text(page)
        key = self._texts.add(text, (page.host, page.language, page.url)) if text else 0
        self._writer.add_document(document(page, self._analysis, key))

    def remove(self, url_key: int, *, first: bool = False) -> None:
        """Remove the document of a URL.

        `first` as in `put`: looking a document up costs a tenth of an unnecessary deletion.
        """
        name = url_id(url_key)
        if not first or self._committed.doc_freq(ID, name):
            self._writer.delete_documents_by_term(ID, name)

    def commit(self) -> None:
        """Make the changes visible to `collections` and `link`."""
        self._writer.commit()
        self._index.reload()

    def finish_merges(self) -> None:
        """Wait for the merges that commits have started."""
        self._writer.wait_merging_threads()
        self._writer = self._index.writer(*self._writer_settings)
        self._index.reload()

    def collections(self, url_key: int) -> list[str] | None:
        """Return the collections of the committed document of a URL; None if there is none."""
        committed = self._committed
        hits = committed.search(tantivy.Query.term_query(schema(), ID, url_id(url_key)), 1).hits
        return stored(committed.doc(hits[0][1])).collections if hits else None

    @property
    def documents(self) -> int:
        """Number of committed documents."""
        return int(self._committed.num_docs)

    def counts(self) -> tuple[int, dict[str, int], dict[str, int]]:
        """Return the number of documents, and of pages by language and by collection.

        Replaced pages count until their segment is merged.
        """
        committed = self._committed
        languages = dict(committed.terms_with_prefix(LANGUAGE, ""))
        collections = dict(committed.terms_with_prefix(COLLECTION, ""))
        return committed.num_docs, languages, collections

    def link(self) -> Path:
        """Return a new build folder with the files of the last commit. Commit before."""
        target = Path(tempfile.mkdtemp(prefix=f"{generations.BUILD_PREFIX}out-", dir=self._parent))
        os.chmod(target, 0o755)
        for name in self._texts.finish(self.documents, self._named_texts):
            _place(self.path / name, target / name)
        for _ in range(_ATTEMPTS):
            meta = (self.path / _META).read_bytes()
            try:
                names = index_files(self.path)
                for name in names:
                    _place(self.path / name, target / name)
            except FileNotFoundError:
                continue  # a merge ended and removed its sources
            if (self.path / _META).read_bytes() == meta == (target / _META).read_bytes():
                return target
            for name in names:
                (target / name).unlink()
        raise OSError(
            f"{self.path}: the files of tantivy changed repeatedly while they were copied"
        )

    def close(self) -> None:
        """Stop tantivy's threads and remove the working folder."""
        self._texts.close()
        self._writer.wait_merging_threads()
        shutil.rmtree(self.path)

    @property
    def _committed(self) -> tantivy.Searcher:
        """Return a searcher. Do not store it: merged segments stay on disk while it exists."""
        return self._index.searcher()

    def _named_texts(self) -> Iterator[int]:
        """Yield the text keys of the committed documents."""
        committed = self._committed
        for first in range(0, int(committed.num_docs), _BATCH):
            hits = committed.search(
                tantivy.Query.all_query(), _BATCH, count=False, offset=first
            ).hits
            values: list[Any] = committed.fast_field_values(TEXT, [address for _, address in hits])
            yield from (key for key in map(text_of, values) if key is not None)


def index_files(path: Path) -> list[str]:
    """Return the names of meta.json and of the files of its segments."""
    meta = json.loads((path / _META).read_bytes())
    segments = {segment["segment_id"].replace("-", "") for segment in meta["segments"]}
    files = [name for name in os.listdir(path) if name.partition(".")[0] in segments]
    return [*files, _META]


def _place(source: Path, target: Path) -> None:
    """Link a segment file, which never changes; copy the list of segments."""
    target.unlink(missing_ok=True)
    if source.name == _META:
        shutil.copyfile(source, target)
    else:
        generations.link_or_copy(source, target)
