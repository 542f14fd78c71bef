"""`/metrics`: the workspace's figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lycosa.daemon.metrics import CONTENT_TYPE
from lycosa.serve.services import ServicesDep

router = APIRouter()


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
        name = "lycosa_encoder_failures_total"
        text += (
            f"# HELP {name} Queries that the encoder did not encode.\n# TYPE {name} counter\n"
            f"{name} {failures}\n"
        )
    return Response(text, media_type=CONTENT_TYPE)
