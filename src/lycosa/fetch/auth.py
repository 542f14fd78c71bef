"""Basic authentication (RFC 7617), sent preemptively to configured URLs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping

from lycosa.config.credentials import BasicAuth
from lycosa.core.errors import ConfigError
from lycosa.url.normalise import normalise


def secret_from(environment: Mapping[str, str], variable: str, setting: str) -> str:
    """Return a password from the environment, the only source of passwords.

    Raises:
        ConfigError: the variable is not set.
    """
    secret = environment.get(variable)
    if not secret:
        raise ConfigError(
            f"{setting}: the environment variable {variable} is not set: set it to the password"
        )
    return secret


class BasicCredentials:
    """The credentials of one collection."""

    def __init__(self, settings: Iterable[BasicAuth], environment: Mapping[str, str]) -> None:
        """
        Raises:
            ConfigError: a password is not in the environment.
            UrlError: a URL cannot be used.
        """
        pairs = []
        for each in settings:
            password = secret_from(environment, each.password_env, "collection.auth")
            token = b64encode(f"{each.user}:{password}".encode()).decode()
            pairs.append((normalise(each.url).partition("?")[0], f"Basic {token}"))
        self._pairs = sorted(pairs, key=lambda pair: -len(pair[0]))  # the longest prefix applies

    def header(self, url: str) -> str:
        """Return the Authorization field for a normalised URL; "" without credentials."""
        return next((value for prefix, value in self._pairs if is_below(url, prefix)), "")


def is_below(url: str, prefix: str) -> bool:
    """Return whether a normalised URL equals the prefix or is below its path."""
    if not url.startswith(prefix):
        return False
    return prefix.endswith("/") or url[len(prefix) : len(prefix) + 1] in ("", "/", "?")
