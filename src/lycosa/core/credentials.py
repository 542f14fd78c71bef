"""`collection.auth` and `collection.login`: where a collection's credentials hold."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from lycosa.core.section import Section, Variable

_USER = re.compile(r"^(\s*[A-Za-z][A-Za-z0-9+.-]*:[/\\]*)[^/\\?#]*@")


def without_user(url: str) -> str:
    """A URL as somebody wrote it, without the user name and password that may stand in it: they are never sent, nor kept or shown."""
    return _USER.sub(r"\1", url)


def _web_address(value: str) -> str:
    if not re.match(r"https?://[^/@\s]+(/|$)", value):
        raise ValueError("write an http or https URL without a user name in it")
    return value


def _expression(value: str) -> str:
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return value


class BasicAuth(Section):
    """Credentials for HTTP Basic authentication (RFC 7617). They are sent to URLs of that origin below that path, and nowhere else."""

    url: Annotated[str, AfterValidator(_web_address)] = Field(description="Where they hold: this URL and everything below its path.")
    user: str = Field(pattern=r"^[^:\x00-\x1f\x7f]*$", description="The user's name.")
    password_env: Variable = Field(description="The environment variable that holds the password; it stands nowhere else.")


class FormLogin(Section):
    """A form to log in with, once for all pages of its origin; with it the collection keeps cookies. The page with the form is asked
    for, and what it holds in hidden fields is sent back with `fields` and the password."""

    url: Annotated[str, AfterValidator(_web_address)] = Field(description="The page that holds the form. robots.txt must allow it.")
    fields: dict[str, str] = Field(default_factory=dict, description='What to fill in beside the password: `{ user = "me" }`.')
    password_field: str = Field("password", min_length=1, description="The name of the password's field.")
    password_env: Variable = Field(description="The environment variable that holds the password; it stands nowhere else.")
    success: Annotated[str, AfterValidator(_expression)] = Field(
        "",
        description="A regular expression that matches somewhere in the page that follows when it worked. "
        "Empty: it worked if that page has no field for a password.",
    )
    logged_out: Annotated[str, AfterValidator(_expression)] = Field(
        "",
        description="A regular expression that matches somewhere in a page that says we are logged out. "
        "A redirect to the form says so in any case.",
    )
