"""Errors as RFC 9457 problem documents (`application/problem+json`), for browsers as pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response

from lycosa.core.errors import UsageError
from lycosa.core.messages import Message

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


def error_responses(descriptions: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that returns these statuses with a problem document."""
    return {
        status: {
            "model": Problem,
            "content": {PROBLEM_TYPE: {}},
            "description": description,
        }
        for status, description in descriptions.items()
    }


ERRORS = error_responses(
    {
        400: "The request is invalid",
        422: "A parameter is invalid",
        429: "Too many requests: try again after the seconds in Retry-After",
        503: "The workspace cannot be read",
    }
)
NOT_FOUND = error_responses({404: "Not found"})
INVALID = error_responses({400: "The request is invalid; nothing was changed"})
WRITE_ERRORS = error_responses(
    {
        401: "A token is required, or the token is invalid",
        403: "The CSRF token of the session is missing, or the request came from another site",
        429: "Too many requests: try again after the seconds in Retry-After",
        507: "The disk of the server is full or not writable; nothing was changed",
    }
)
"""Further errors of routes that change something."""


def checked(check: Callable[[str], str | None]) -> AfterValidator:
    """Return a validator of a parameter: its value is what `check` returns, and a UsageError that
    `check` raises is the message of the fault.
    """

    def validate(text: str) -> str:
        try:
            return check(text) or ""
        except UsageError as error:
            raise PydanticCustomError("usage", "{reason}", {"reason": str(error)}) from None

    return AfterValidator(validate)


def problem_response(
    status: int,
    title: str = "",
    detail: str = "",
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return a problem document.

    Without a title the phrase of the status is used.
    """
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


def error_response(
    request: Request,
    status: int,
    title: str,
    detail: str = "",
    faults: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page if the request accepts HTML, else a problem document."""
    if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith("/api/"):
        return problem_response(status, title, detail, faults, headers)
    pages = request.app.state.services.pages
    parts = [detail, *(f"{fault.parameter}: {fault.message}." for fault in faults)]
    text = parts[0] if len(parts) == 1 else " ".join(parts).strip()
    title = pages.words(request).plain(title) if isinstance(title, Message) else title
    page: Response = pages.page(
        request, "error.html", status, status=status, title=title, detail=text
    )
    page.headers.update(headers or {})
    return page
