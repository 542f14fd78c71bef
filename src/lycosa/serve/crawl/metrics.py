"""`/metrics`: the workspace's figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lycosa.daemon.metrics import CONTENT_TYPE
from lycosa.serve.services import ServicesDep

router = APIRouter()

ENCODER_FAILURES = "lycosa_encoder_failures_total"


@router.get(
    "/metrics",
    tags=["workspace"],
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
def metrics(services: ServicesDep) -> Response:
    """Return the metrics of the workspace in the Prometheus text format."""
    text = services.meter.text()
    failures = services.encoder_failures
    if failures is not None:
        text += (
            f"# HELP {ENCODER_FAILURES} Queries that the encoder did not encode.\n"
            f"# TYPE {ENCODER_FAILURES} counter\n{ENCODER_FAILURES} {failures}\n"
        )
    return Response(text, media_type=CONTENT_TYPE)
