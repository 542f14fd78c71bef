"""`[notify]`: how notices leave the house."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lycosa.config.section import DurationMs, SettingsSection, Variable


class NotifySettings(SettingsSection):
    """Delivery of notifications of watches and monitors."""

    timeout: DurationMs = Field(
        10_000, ge=100, description="Time limit for the response of a webhook, and for a command."
    )
    private: tuple[Annotated[str, Field(pattern=r"^[^\s/@]+:\d{1,5}$")], ...] = Field(
        (),
        description="Webhooks with non-public addresses that are allowed, as `HOST:PORT`, for "
        "example `127.0.0.1:9000`.",
    )
    secret_env: Variable = Field(
        "LYCOSA_WEBHOOK_SECRET",
        description="Environment variable with the secret that signs webhooks (HMAC-SHA256, "
        "Standard Webhooks). The value is "
        "`whsec_` followed by base64, or any text. If the variable is not set, webhooks are not "
        "signed.",
    )
