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
    return Response(services.meter.text(), media_type=CONTENT_TYPE)
