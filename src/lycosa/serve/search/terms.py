"""`/api/v1/terms`: the words of the stored pages, and those that rise."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from lycosa.commands.inspection.terms import workspace_terms
from lycosa.search.query.term_statistics import TermsReport, TermsRequest
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


router = APIRouter(prefix="/api/v1", tags=["search"])


@router.get("/terms", responses=ERRORS)
def terms(services: ServicesDep, parameters: Annotated[TermsParameters, Query()]) -> TermsReport:
    """Count the words of the pages, by language, site and time, as `lycosa terms --json`."""
    with services.terms_lock:
        return workspace_terms(services.root, parameters.request())


def _ms(day: date | None) -> int | None:
    return (
        None
        if day is None
        else round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
    )
