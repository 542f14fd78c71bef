"""Sections `collection.auth` and `collection.login`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from lycosa.config.section import Expression, SettingsSection, Variable

_USER = re.compile(r"^(\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*)[^/\\?#]*@")


def without_user(url: str) -> str:
    """Return a URL without user name and password, which are never sent, stored or shown."""
    return _USER.sub(r"\1", url)


def _web_address(value: str) -> str:
    if not re.match(r"https?://[^/@\s]+(/|$)", value):
        raise ValueError("write an http or https URL without a user name in it")
    return value


class BasicAuth(SettingsSection):
    """Credentials for HTTP Basic authentication (RFC 7617). They are sent only to URLs of this
    origin below this path.
    """

    url: Annotated[str, AfterValidator(_web_address)] = Field(
        description="URL prefix: this URL and everything below its path."
    )
    user: str = Field(pattern=r"^[^:\x00-\x1f\x7f]*$", description="User name.")
    password_env: Variable = Field(description="Environment variable with the password.")


class FormLogin(SettingsSection):
    """A login form, submitted once for all pages of its origin. Cookies are then stored for the
    collection. The form page is fetched, and its hidden fields are sent with `fields` and the
    password.
    """

    url: Annotated[str, AfterValidator(_web_address)] = Field(
        description="URL of the page with the login form. robots.txt must allow it."
    )
    fields: dict[str, str] = Field(
        default_factory=dict,
        description='Form fields to submit besides the password: `{ user = "me" }`.',
    )
    password_field: str = Field("password", min_length=1, description="Name of the password field.")
    password_env: Variable = Field(description="Environment variable with the password.")
    success: Expression = Field(
        "",
        description="Regular expression that must match the page after the login. Empty: the "
        "login succeeded if that page has "
        "no password field.",
    )
    logged_out: Expression = Field(
        "",
        description="Regular expression that matches pages of a user who is not logged in. A "
        "redirect to the form always means logged out.",
    )
