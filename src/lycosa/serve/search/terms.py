"""`/api/v1/terms`: the words of the stored pages, and those that rise."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lycosa.commands.inspection.terms import workspace_terms
from lycosa.core.units import format_time
from lycosa.search.query.term_statistics import Term, TermsRequest
from lycosa.serve.services import ServicesDep
from lycosa.serve.web.problems import ERRORS

MAX_TERMS = 1_000
_DAY_MS = 86_400_000


class TermsParameters(BaseModel):
    """Which words of which pages to count."""

    n: int = Field(50, ge=1, le=MAX_TERMS, description="Number of words.")
    lang: str = Field("", max_length=16, description="Only pages in this language.")
    site: str = Field("", max_length=255, description="Only pages of this host.")
    collection: str = Field("", max_length=64, description="Only pages of this collection.")
    since: date | None = Field(None, description="Only pages fetched since this day (UTC).")
    until: date | None = Field(None, description="Only pages fetched before this day.")
    rising: bool = Field(False, description="Only words that are more frequent in recent pages.")
    days: float = Field(7, gt=0, le=10_000, description="Length of the recent period in days.")

    def request(self) -> TermsRequest:
        """Return the count that the parameters describe."""
        return TermsRequest(
            self.n,
            self.lang,
            self.site,
            self.collection,
            _ms(self.since),
            _ms(self.until),
            self.rising,
            round(self.days * _DAY_MS),
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
    terms: list[Term] = Field(
        description="`documents`: number of pages that contain the word; `surprise`: "
        "log-likelihood ratio of its share in recent and earlier pages, negative: less frequent."
    )


router = APIRouter(prefix="/api/v1", tags=["search"])


@router.get("/terms", responses=ERRORS)
def terms(services: ServicesDep, parameters: Annotated[TermsParameters, Query()]) -> Terms:
    """Count the words of the pages, by language, site and time."""
    with services.terms_lock:
        report = workspace_terms(services.root, parameters.request())
    return Terms(
        pages=report.pages,
        recent_pages=report.recent_pages,
        recent_since=format_time(max(report.recent_since, 0)),
        languages=report.languages,
        missed=report.missed,
        terms=report.terms,
    )


def _ms(day: date | None) -> int | None:
    return (
        None
        if day is None
        else round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    )
