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
from lycosa.serve.api import ERRORS

MAX_TERMS = 1_000
_DAY_MS = 86_400_000


class TermCount(BaseModel):
    """One word."""

    text: str = Field(description="As it is mostly written.")
    language: str
    documents: int = Field(description="Pages that hold it.")
    total: int = Field(description="How often they hold it.")
    recent: int = Field(description="Of the pages those that are newest.")
    surprise: float = Field(
        description="Log-likelihood of its share of the newest pages; negative: it fell."
    )


class Terms(BaseModel):
    """The words, the most frequent first, or those that rise most."""

    pages: int = Field(description="Pages that were looked at.")
    recent_pages: int
    recent_since: str = Field(description="UTC, ISO 8601: pages from then on are the newest.")
    languages: dict[str, int]
    missed: int = Field(
        description="Of words on up to so many pages some may be missing; 0: all were counted."
    )
    terms: list[TermCount]


def create_terms(count: Callable[[TermsRequest], TermsReport]) -> APIRouter:
    """The route. One request is counted at a time: each reads all pages."""
    router = APIRouter(prefix="/api/v1", tags=["search"])
    alone = threading.Lock()

    @router.get("/terms", responses=ERRORS)
    def terms(
        n: Annotated[int, Query(ge=1, le=MAX_TERMS, description="How many words.")] = 50,
        lang: Annotated[str, Query(max_length=16, description="Only pages in this language.")] = "",
        site: Annotated[str, Query(max_length=255, description="Only pages of this host.")] = "",
        collection: Annotated[
            str, Query(max_length=64, description="Only pages of this collection.")
        ] = "",
        since: Annotated[
            date | None, Query(description="Only pages from this day on (UTC).")
        ] = None,
        until: Annotated[date | None, Query(description="Only pages from before this day.")] = None,
        rising: Annotated[
            bool,
            Query(description="Words that the newest pages hold more often than the earlier ones."),
        ] = False,
        days: Annotated[
            float,
            Query(
                gt=0,
                le=10_000,
                description="Which pages are the newest: those of so many last days.",
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
