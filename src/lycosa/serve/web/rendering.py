"""The common parts of all pages: templates, language, signed-in account, navigation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from lycosa.core.units import format_size
from lycosa.serve.search.views import readable_url
from lycosa.serve.web.access import Access
from lycosa.serve.web.i18n import (
    LANGUAGES,
    Interface,
    chosen_language,
    direction,
    interface,
    language_name,
    message,
)

PLACES: tuple[tuple[str, str], ...] = (
    ("/", message("Search")),
    ("/hunt", message("Hunts")),
    ("/library", message("Library")),
    ("/crawl", message("Crawl")),
    ("/sites", message("Sites")),
    ("/watch", message("Watches")),
    ("/uptime", message("Uptime")),
)
"""The navigation: (path, English name). Names are translated where they are shown."""

PROPOSE = ("/propose", message("Propose a site"))
"""The entry of the navigation with `serve.public_form`."""

AREAS = (
    "web",
    "search",
    "captures",
    "crawl",
    "hunts",
    "library",
    "sites",
    "uptime",
    "watches",
)
"""Packages with a folder of templates."""


class PageRenderer:
    """Renders pages."""

    def __init__(self, access: Access, places: tuple[tuple[str, str], ...] = PLACES) -> None:
        self._access = access
        self._places = places

    def page(
        self, request: Request, template: str, code: int = 200, /, **values: object
    ) -> HTMLResponse:
        """Render a template as a response of status `code`, with `values` and the variables of
        every template: see `_shared`, and `session` (the signed-in account; None), `here` (path and
        query), `here_path`, `places`, `typed` (the fields of the form that was sent), `problem`
        (what is wrong with them).
        """
        words = self.words(request)
        around = {
            "session": self._access.session(request),
            "here": _here(request),
            "here_path": request.url.path,
            "places": self._places,
            "typed": defaultdict(str, getattr(request.state, "form_fields", {})),
        }
        html = TEMPLATES.get_template(template).render({**_shared(words), **around, **values})
        response = HTMLResponse(html, code)
        response.headers["content-language"] = words.code
        response.headers["vary"] = "Accept-Language, Cookie"
        return response

    def words(self, request: Request) -> Interface:
        """Return the reader's language."""
        return interface(
            chosen_language(request.cookies, request.headers.get("accept-language", ""))
        )


def with_query(path: str, **values: object) -> str:
    """Return a path with a query; empty values are omitted."""
    pairs = [(name, str(value)) for name, value in values.items() if value not in ("", None, False)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _shared(words: Interface) -> Mapping[str, object]:
    """Return the functions of the reader's language for templates: `t`, `th`, `number`, `percent`,
    `day`, `time` (of `Interface`), `sentence`, `when` (a datetime or ISO 8601 as `time` gives it,
    "" for none), `seconds` (of milliseconds), `size` (of bytes), `share_of` (to a hundredth of a
    percent), `language_name`, `ui`, `ui_direction`.
    """
    return {
        "t": words.t,
        "th": words.html,
        "sentence": words.sentence,
        "number": words.number,
        "percent": words.percent,
        "day": words.day,
        "time": words.time,
        "when": lambda at: _when(at, words),
        "seconds": lambda ms: _duration(ms, words),
        "size": lambda size: _size(size, words),
        "share_of": lambda share: (
            ""
            if share is None
            else words.t("{share, number, ::percent scale/100 .##}", share=share)
        ),
        "language_name": lambda code: (
            words.t("unknown") if code in ("", "und") else language_name(code)
        ),
        "ui": words.code,
        "ui_direction": words.direction,
    }


def _here(request: Request) -> str:
    """Return path and query to come back to; of a form, the page of its area."""
    if request.method != "GET":
        return "/" + request.url.path.split("/")[1]
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _duration(ms: float | None, words: Interface) -> str:
    """Return milliseconds as `320 ms` or `1.2 s`; empty for None."""
    if ms is None:
        return ""
    if ms < 1000:
        return words.t("{ms, number, ::.#} ms", ms=ms)
    return words.t("{s, number, ::.##} s", s=ms / 1000)


def _size(size: float, words: Interface) -> str:
    """Return bytes as `7.7 KiB`, with the decimal separator of the language."""
    text = format_size(size)
    unit = text.lstrip("0123456789.")
    return f"{words.number(float(text.removesuffix(unit)))}\N{NO-BREAK SPACE}{unit}"


def _when(at: datetime | str | None, words: Interface) -> str:
    moment = datetime.fromisoformat(at) if isinstance(at, str) and at else at
    return words.time(round(moment.timestamp() * 1000)) if isinstance(moment, datetime) else ""


def _templates() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(f"lycosa.serve.{area}") for area in AREAS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "direction_of": direction,
        "languages_of_ui": LANGUAGES,
        "with_query": with_query,
        "readable": readable_url,
        **_shared(interface("en")),
        "session": None,
        "here": "/",
        "here_path": "/",
        "places": (),
        "problem": "",
        "typed": defaultdict(str),
    }
    return environment


TEMPLATES = _templates()
