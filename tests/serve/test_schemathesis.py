"""Requests generated from the OpenAPI schema: every response conforms to it, none has status 5xx."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from lycosa.commands.inspection.status import workspace_status
from lycosa.commands.maintenance.tokens import Tokens
from lycosa.config.serving import ServeSettings
from lycosa.serve.app import create_app
from lycosa.store.storage.storage import open_storage

BRIEF, LONG = 6, 400
"""Examples per route: in the default suite, and in `make prove`."""
EXCLUDED = {("post", "/api/v1/hunts")}
"""Sends requests to the web; covered by tests/hunt/test_session.py."""


@pytest.fixture(scope="module")
def api(copy: str) -> schemathesis.BaseSchema:
    app = create_app(
        copy, lambda: workspace_status(copy), limits=ServeSettings(rate=0, writes=1_000_000)
    )
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


@pytest.fixture(scope="module")
def token(copy: str) -> str:
    return Tokens(open_storage(copy)).add("schema")


def _test_routes(
    api: schemathesis.BaseSchema, headers: dict[str, str], examples: int, *, derandomize: bool
) -> int:
    """Send generated requests to every route; return the number of routes."""
    routes = 0
    for result in api.get_all_operations():
        assert isinstance(result, Ok), result
        operation = result.ok()
        if (operation.method, operation.path) in EXCLUDED:
            continue
        routes += 1

        @settings(
            max_examples=examples,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
            derandomize=derandomize,
        )
        @given(case=operation.as_strategy())
        def request(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(
                headers=headers,
                checks=[not_a_server_error, status_code_conformance, response_schema_conformance],
            )

        request()
    return routes


@pytest.mark.proves("access-errors")
@pytest.mark.slow
def test_anonymous_requests_conform_to_the_schema(api: schemathesis.BaseSchema) -> None:
    assert _test_routes(api, {}, BRIEF, derandomize=True) > 15


@pytest.mark.slow
def test_requests_with_a_token_conform_to_the_schema(
    api: schemathesis.BaseSchema, token: str
) -> None:
    assert _test_routes(api, {"Authorization": f"Bearer {token}"}, BRIEF, derandomize=True) > 15


@pytest.mark.proves("access-errors")
@pytest.mark.prove
def test_many_requests_with_a_token_conform_to_the_schema(
    api: schemathesis.BaseSchema, token: str
) -> None:
    assert _test_routes(api, {"Authorization": f"Bearer {token}"}, LONG, derandomize=False) > 15
