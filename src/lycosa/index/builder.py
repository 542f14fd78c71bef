"""The writing side of tantivy: a private working folder, and generations linked out of it.

The working folder lives as long as the builder, so that a long crawl does not open an index and
start threads for every update, and tantivy merges segments behind our back. Publishing links the
files that the last commit names.
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
_LOOKED_AT = 50_000  # documents whose texts are asked for together
# a merge ends rarely between two looks at meta.json; a hundred times in a row it does not
_ATTEMPTS = 100


# bytes for each thread: less or more tantivy refuses
_MIN_HEAP, _MAX_HEAP = 15_000_000, 4_293_967_294


class IndexBuilder:
    """Documents in, generations out. One thread at a time."""

    def __init__(
        self,
        index_folder: Path,
        base: Path | None,
        *,
        heap_bytes: int,
        threads: int,
        analysis: Analysis = Analysis(),
    ) -> None:
        """Start from a published generation, or from nothing."""
        self._parent = index_folder
        self._analysis = analysis
        self.path = Path(
            tempfile.mkdtemp(prefix=f"{generations.BUILD_PREFIX}work-", dir=index_folder)
        )
        if base is not None:
            names = index_files(base)
            for name in names:
                _place(base / name, self.path / name)
            # what tantivy may delete when a merge is done with it
            (self.path / _MANAGED).write_text(json.dumps(names))
            for path in files(base):
                _place(path, self.path / path.name)
        self._texts = TextWriter(self.path)
        self._index = tantivy.Index(schema(), path=str(self.path))
        self._writer = self._index.writer(
            min(max(heap_bytes, threads * _MIN_HEAP), threads * _MAX_HEAP), threads
        )
        self._searcher = self._index.searcher()

    def put(self, page: IndexedPage, *, first: bool = False) -> None:
        """Index a page in place of what its URL had. `first`: nothing was put for its URL since the
        last commit.
        """
        self.remove(page.url_key, first=first)
        text = stored_text(page)
        key = self._texts.add(text, (page.host, page.language, page.url)) if text else 0
        self._writer.add_document(document(page, self._analysis, key))

    def remove(self, url_key: int, *, first: bool = False) -> None:
        """Take a URL's document out. `first` as of `put`: to look among the committed ones costs a
        tenth of a deletion in vain.
        """
        name = url_id(url_key)
        if not first or self._searcher.doc_freq(ID, name):
            self._writer.delete_documents_by_term(ID, name)

    def commit(self) -> None:
        """Make what was put visible to `collections` and `link`."""
        self._writer.commit()
        self._index.reload()
        self._searcher = self._index.searcher()

    def collections(self, url_key: int) -> list[str] | None:
        """The collections of the committed document of a URL; None if there is none."""
        hits = self._searcher.search(
            tantivy.Query.term_query(schema(), ID, url_id(url_key)), 1
        ).hits
        return stored(self._searcher.doc(hits[0][1])).collections if hits else None

    @property
    def documents(self) -> int:
        """Committed documents."""
        return int(self._searcher.num_docs)

    def counts(self) -> tuple[int, dict[str, int], dict[str, int]]:
        """Documents; pages by language and by collection (replaced ones count until their segment
        is merged).
        """
        languages = dict(self._searcher.terms_with_prefix(LANGUAGE, ""))
        collections = dict(self._searcher.terms_with_prefix(COLLECTION, ""))
        return self._searcher.num_docs, languages, collections

    def link(self) -> Path:
        """A new build folder with the files of the last commit, ready to be published. Everything
        that was put must be committed.
        """
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
                continue  # a merge ended and its sources are gone: look again
            if (self.path / _META).read_bytes() == meta == (target / _META).read_bytes():
                return target
            for name in names:
                (target / name).unlink()
        raise OSError(f"{self.path}: tantivy's files did not stand still")

    def close(self) -> None:
        """Stop tantivy's threads and remove the working folder."""
        self._texts.close()
        self._writer.wait_merging_threads()
        shutil.rmtree(self.path)

    def _named_texts(self) -> Iterator[int]:
        """The keys of the texts that the committed documents name."""
        for first in range(0, self.documents, _LOOKED_AT):
            hits = self._searcher.search(
                tantivy.Query.all_query(), _LOOKED_AT, count=False, offset=first
            ).hits
            values: list[Any] = self._searcher.fast_field_values(
                TEXT, [address for _, address in hits]
            )
            yield from (key for key in map(text_of, values) if key is not None)


def index_files(path: Path) -> list[str]:
    """The files that the committed meta.json names: those of its segments, and itself."""
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
