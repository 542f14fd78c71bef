"""`/api/v1/terms`: the words of the stored pages, and those that rise."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lycosa.core.units import format_time
from lycosa.search.query.term_statistics import TermsReport, TermsRequest
from lycosa.serve.search.api import ERRORS

MAX_TERMS = 1_000
_DAY_MS = 86_400_000


class TermCount(BaseModel):
    """A word with its frequencies."""

    text: str = Field(description="Most frequent spelling.")
    language: str
    documents: int = Field(description="Number of pages that contain it.")
    total: int = Field(description="Number of occurrences.")
    recent: int = Field(description="Number of recent pages that contain it.")
    surprise: float = Field(
        description="Log-likelihood ratio of its share in recent and earlier pages; "
        "negative: less frequent."
    )


class Terms(BaseModel):
    """The most frequent words, or the words with the largest increase."""

    pages: int = Field(description="Number of pages counted.")
    recent_pages: int
    recent_since: str = Field(description="UTC, ISO 8601: start of the recent period.")
    languages: dict[str, int]
    missed: int = Field(
        description="Words on at most this many pages may be missing; 0: the list is complete."
    )
    terms: list[TermCount]


def create_terms(count: Callable[[TermsRequest], TermsReport]) -> APIRouter:
    """The route. One request is counted at a time: each reads all pages."""
    router = APIRouter(prefix="/api/v1", tags=["search"])
    alone = threading.Lock()

    @router.get("/terms", responses=ERRORS)
    def terms(
        n: Annotated[int, Query(ge=1, le=MAX_TERMS, description="Number of words.")] = 50,
        lang: Annotated[str, Query(max_length=16, description="Only pages in this language.")] = "",
        site: Annotated[str, Query(max_length=255, description="Only pages of this host.")] = "",
        collection: Annotated[
            str, Query(max_length=64, description="Only pages of this collection.")
        ] = "",
        since: Annotated[
            date | None, Query(description="Only pages fetched since this day (UTC).")
        ] = None,
        until: Annotated[
            date | None, Query(description="Only pages fetched before this day.")
        ] = None,
        rising: Annotated[
            bool,
            Query(description="Only words that are more frequent in recent pages."),
        ] = False,
        days: Annotated[
            float,
            Query(
                gt=0,
                le=10_000,
                description="Length of the recent period in days.",
            ),
        ] = 7,
    ) -> Terms:
        """Count the words of the pages, by language, site and time."""
        request = TermsRequest(
            n, lang, site, collection, _ms(since), _ms(until), rising, round(days * _DAY_MS)
        )
        with alone:
            report = count(request)
        return Terms(
            pages=report.pages,
            recent_pages=report.recent_pages,
            recent_since=format_time(max(report.recent_since, 0)),
            languages=report.languages,
            missed=report.missed,
            terms=[
                TermCount(
                    text=term.text,
                    language=term.language,
                    documents=term.documents,
                    total=term.total,
                    recent=term.recent,
                    surprise=term.surprise,
                )
                for term in report.terms
            ],
        )

    return router


def _ms(day: date | None) -> int | None:
    return (
        None
        if day is None
        else round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    )
