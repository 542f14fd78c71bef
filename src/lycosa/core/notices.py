"""`[notify]`: how notices leave the house."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lycosa.core.section import DurationMs, Section, Variable


class NotifySettings(Section):
    """How notices leave the house: of watches that matched, of sites that went down."""

    timeout: DurationMs = Field(10_000, ge=100, description="How long a webhook may take to answer, or a command to end.")
    private: tuple[Annotated[str, Field(pattern=r"^[^\s/@]+:\d{1,5}$")], ...] = Field(
        (), description="Webhooks that may be reached though their address is not public: `HOST:PORT` each, as `127.0.0.1:9000`."
    )
    secret_env: Variable = Field(
        "LYCOSA_WEBHOOK_SECRET",
        description="The environment variable with the secret that webhooks are signed with (HMAC-SHA256, Standard Webhooks); "
        "`whsec_` and base64, or any text. Where it is not set, they are not signed.",
    )
