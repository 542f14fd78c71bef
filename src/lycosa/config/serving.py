"""`[serve]`: how the pages and the API are offered."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from lycosa.config.section import DurationMs, SettingsSection, Variable


class ServeSettings(SettingsSection):
    """The web pages and the JSON API."""

    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. The default accepts connections from this machine only.",
    )
    port: int = Field(8000, ge=0, le=65535, description="TCP port. 0: any free port.")
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of server processes. Each process opens the index separately.",
    )
    rate: int = Field(
        20,
        ge=0,
        le=100_000,
        description="Maximum number of requests per second and client address, with bursts of 4 "
        "times as many. Loopback "
        "addresses are not limited. 0: no limit.",
    )
    trusted_proxies: tuple[str, ...] = Field(
        (),
        description='Addresses or networks (CIDR) of reverse proxies, for example `["127.0.0.1", '
        '"10.0.0.0/8"]`. Their `Forwarded` or '
        "`X-Forwarded-For` header names the client for rate limits and lock-outs; clients for "
        "which both differ share one limit. Empty: these headers are ignored.",
    )
    library: str = Field(
        "",
        description="Folder written by `lycosa export` whose files are offered for download. "
        "Empty: `run/library` in the workspace.",
    )
    public_form: bool = Field(
        False,
        description="Let visitors propose sites at /propose. Nothing is fetched before a "
        "user with a token accepts the proposal.",
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            try:
                ipaddress.ip_network(each, strict=False)
            except ValueError:
                raise ValueError(
                    f"{each!r} is neither an IP address nor a network such as 10.0.0.0/8"
                ) from None
        return value

    writes: int = Field(
        600, ge=1, le=1_000_000, description="Maximum number of changes per minute and token."
    )


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


def _server(value: str) -> str:
    if not re.fullmatch(r"https?://[^/@\s?#]+(?:/[^@\s?#]*)?", value):
        raise ValueError("write it as http://HOST:PORT, without user, password, ? or #")
    return value.rstrip("/")


class SearchSettings(SettingsSection):
    """Other workspaces and Lycosa servers that searches include."""

    workspaces: tuple[str, ...] = Field(
        (), description="Further workspaces to search, each a folder or a URL."
    )
    peers: tuple[Annotated[str, AfterValidator(_server)], ...] = Field(
        (),
        description="Other Lycosa servers to search, as `http://HOST:PORT` of their `lycosa "
        "serve`. They can influence the "
        "ranking but nothing else.",
    )
    peer_timeout: DurationMs = Field(
        2_000,
        ge=50,
        le=60_000,
        description="Time limit for all peers together per search. "
        "Results of peers that are late are omitted.",
    )
    hops: int = Field(
        1,
        ge=0,
        le=3,
        description="How far searches are forwarded. 0: to no peer. "
        "1: to the peers. 2: also to their peers.",
    )
