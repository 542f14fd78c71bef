"""Log-in forms, read and filled in as a browser would. Pure.

Only forms in the page's markup: one that scripts build is not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from lycosa.core.dataclass import dataclass
from lycosa.core.errors import Refusal
from lycosa.page.html.tree import Node, parse_html
from lycosa.url.normalise import LinkResolver

FORM_TYPE = "application/x-www-form-urlencoded"

_MAX_CONTROLS = 200
_SENT_TYPES = frozenset(("", "hidden", "text", "email", "tel", "url", "search", "number"))


@dataclass(slots=True, frozen=True)
class Form:
    """The target of a form (an absolute, normalised URL) and its initial values."""

    action: str
    fields: tuple[tuple[str, str], ...]

    def filled(self, values: Mapping[str, str]) -> bytes:
        """Return the body of the POST, with these values in place of the initial ones."""
        pairs = [(name, value) for name, value in self.fields if name not in values]
        return urlencode([*pairs, *values.items()]).encode("ascii")


def read_form(payload: bytes, url: str, password_field: str) -> Form | None:
    """Return the POST form with the password field (by name, else by type), None without one."""
    tree, _ = parse_html(payload)
    forms = [
        form
        for form in tree.css("form")
        if (form.attributes.get("method") or "").strip().lower() == "post"
    ]
    form = next(
        (
            each
            for each in forms
            if any(_name(control) == password_field for control in each.css("input"))
        ),
        None,
    )
    form = form or next(
        (each for each in forms if each.css_first("input[type=password i]") is not None), None
    )
    if form is None:
        return None
    base = tree.css_first("base[href]")
    resolver = LinkResolver(url)
    if base is not None and not isinstance(
        based := resolver.resolve(base.attributes.get("href") or ""), Refusal
    ):
        resolver = LinkResolver(based)
    action = resolver.resolve(form.attributes.get("action") or url)
    if isinstance(action, Refusal):
        return None
    controls = form.css("input, textarea, select")[:_MAX_CONTROLS]
    return Form(
        action,
        tuple((_name(control), _value(control)) for control in controls if _is_sent(control)),
    )


def has_password_field(payload: bytes) -> bool:
    """Return whether a page has a password field."""
    return (
        b"password" in payload.lower()
        and parse_html(payload)[0].css_first("input[type=password i]") is not None
    )


def _name(control: Node) -> str:
    return control.attributes.get("name") or ""


def _is_sent(control: Node) -> bool:
    attributes = control.attributes
    if not _name(control) or "disabled" in attributes:
        return False
    if control.tag != "input":
        return True
    kind = (attributes.get("type") or "").strip().lower()
    return kind in _SENT_TYPES or (kind in ("checkbox", "radio") and "checked" in attributes)


def _value(control: Node) -> str:
    if control.tag == "textarea":
        return control.text(deep=True)
    if control.tag == "select":
        option = control.css_first("option[selected]") or control.css_first("option")
        if option is None:
            return ""
        value = option.attributes.get("value")
        return option.text(deep=True).strip() if value is None else value
    checked = (control.attributes.get("type") or "").strip().lower() in ("checkbox", "radio")
    return control.attributes.get("value", "on" if checked else "") or ""
