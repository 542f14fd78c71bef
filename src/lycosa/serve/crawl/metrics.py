"""`/metrics`: the workspace's figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lycosa.daemon.metrics import CONTENT_TYPE, Meter


def create_metrics(root: str) -> APIRouter:
    """The route. A scrape reads what the log got since the last one, and a few small files."""
    router = APIRouter()
    meter = Meter(root)

    @router.get(
        "/metrics",
        tags=["workspace"],
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}},
    )
    def metrics() -> Response:
        """Return the metrics of the workspace in the Prometheus text format."""
        return Response(meter.text(), media_type=CONTENT_TYPE)

    return router
