"""Search results of the Python API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import Any, overload

from lycosa.commands.search_models import SearchAnswer, SearchHit


class Result(SearchHit):
    """A search result, with the stored text of its page."""

    def __init__(self, hit: SearchHit, root: str) -> None:
        super().__init__(**vars(hit))
        self._root = root

    @property
    def text(self) -> str:
        """The stored text of the page; "" if a peer has it.

        Raises:
            WorkspaceError: the workspace is damaged.
        """
        return self._stored("text")

    @property
    def main_text(self) -> str:
        """The stored text without navigation and other repeated parts; "" if a peer has it.

        Raises:
            WorkspaceError: the workspace is damaged.
        """
        return self._stored("main_text")

    def _stored(self, column: str) -> str:
        if "://" in self.source:
            return ""
        from lycosa.commands.inspection.pages import page_text

        return page_text(self.source or self._root, self.url, self.collection, column)

    def _repr_html_(self) -> str:
        snippet = "".join(
            f"<b>{escape(part.text)}</b>" if part.match else escape(part.text)
            for part in self.fragments
        )
        scheme = self.url.partition(":")[0]
        href = escape(self.url) if scheme in ("http", "https") else ""
        return (
            f'<p><a href="{href}" rel="noopener noreferrer">{escape(self.title or self.url)}</a> '
            f"<small>{escape(self.host)} {escape(self.language)} {self.score:.2f}</small><br>"
            f"{snippet}</p>"
        )


class Results(SearchAnswer, Sequence[Result]):
    """Search results: a sequence of `Result`, best first."""

    def __init__(self, answer: SearchAnswer, root: str) -> None:
        hits = [Result(hit, root) for hit in answer.hits]
        super().__init__(**{**vars(answer), "hits": hits})
        self._results = hits

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, number: int) -> Result: ...
    @overload
    def __getitem__(self, number: slice) -> list[Result]: ...
    def __getitem__(self, number: int | slice) -> Result | list[Result]:
        return self._results[number]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def asdict(self) -> dict[str, Any]:
        """Return the results as plain data, as `lycosa search --json` prints them."""
        return asdict(self)

    def _repr_html_(self) -> str:
        head = f"<p>{self.total:,} results for <i>{escape(self.query)}</i></p>"
        return head + "".join(hit._repr_html_() for hit in self._results)
