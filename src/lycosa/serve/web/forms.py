"""What a form of ours sent: `application/x-www-form-urlencoded`, bounded. No page here uploads a
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.exceptions import HTTPException

MAX_FORM_BYTES = 64 * 1024
_MAX_FIELDS = 200


async def form_fields(request: Request) -> Mapping[str, str]:
    """The fields by name; of one that comes twice the last. Empty for a body of another type. May
    be asked again.

    Raises:
        HTTPException: 413, it is too large.
    """
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    if not hasattr(request.state, "form_fields"):
        request.state.form_fields = await _read(request)
    fields: Mapping[str, str] = request.state.form_fields
    return fields


async def _read(request: Request) -> Mapping[str, str]:
    body = await request.body()
    if len(body) > MAX_FORM_BYTES:
        raise HTTPException(413, "This form is too large")
    try:
        return dict(
            parse_qsl(
                body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FIELDS
            )
        )
    except ValueError:
        raise HTTPException(413, "This form has too many fields") from None
