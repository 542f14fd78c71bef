"""Errors as RFC 9457 problem documents (`application/problem+json`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

PROBLEM_TYPE = "application/problem+json"


class Fault(BaseModel):
    """An invalid parameter."""

    parameter: str
    message: str


class Problem(BaseModel):
    """An error (RFC 9457 section 3.1)."""

    type: str = Field(
        "about:blank", description="`about:blank`: the problem is described by title and status."
    )
    title: str = Field(description="Kind of error.")
    status: int = Field(description="HTTP status.")
    detail: str = Field("", description="Details, and what to do.")
    faults: list[Fault] = Field(default_factory=list, description="Invalid parameters.")


def problem_response(
    status: int,
    title: str = "",
    detail: str = "",
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A problem document as the answer. Without a title the status's own phrase stands there."""
    problem = Problem(
        type="about:blank",
        title=title or HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        faults=list(faults),
    )
    body = problem.model_dump(exclude_defaults=True) | {"type": problem.type}
    return JSONResponse(
        body, status_code=status, media_type=PROBLEM_TYPE, headers=dict(headers or {})
    )
