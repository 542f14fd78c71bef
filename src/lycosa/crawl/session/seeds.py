"""Seeds: one check of all of them, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lycosa.config.credentials import without_user
from lycosa.config.settings import Collection
from lycosa.core.errors import Refusal, UrlError, UsageError
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.rules import Rules
from lycosa.url.scope import url_origin

_SHOWN = 3


def read_seeds(path: str) -> list[str]:
    """The seeds in a file: one a line, as people type them; `#` starts a comment.

    Raises:
        UsageError: the file cannot be read, or a line is not a URL.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"seed file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"seed file {path} cannot be read: it is not valid UTF-8 ({error.reason} "
            f"at byte {error.start})"
        ) from None
    seeds = []
    for number, line in enumerate(text.splitlines(), 1):
        seed = line.split(" #")[0].strip()
        if not seed or seed.startswith("#"):
            continue
        try:
            normalise(typed_url(seed))
        except UrlError as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
        seeds.append(seed)
    return seeds


def seed_problem(url: str, collection: Collection) -> str:
    """Why a collection cannot use a seed or feed; "" if it can."""
    try:
        usable = Rules(collection).apply(normalise(url))
        url_origin(usable)
        if len(usable) > collection.max_url_length:
            raise UrlError(Refusal.TOO_LONG, url)
    except UrlError as error:
        return str(error)
    return ""


def check_seeds(seeds: Iterable[str], collection: Collection) -> None:
    """Check seeds, and the collection's feeds, before anything is written.

    Raises:
        UsageError: some cannot be used; the first three are named, each with its reason.
    """
    wrong = [
        problem
        for url in (*seeds, *collection.feed_urls)
        if (problem := seed_problem(url, collection))
    ]
    if wrong:
        more = len(wrong) - _SHOWN
        raise UsageError("; ".join(wrong[:_SHOWN]) + (f"; and {more} more" if more > 0 else ""))


def seeds_of(
    before: Mapping[str, Any], collection: Collection, new: Sequence[str] = ()
) -> tuple[str, ...]:
    """All seeds of a collection: those of earlier calls, of its configuration, then new ones; each
    once, without user names and passwords. Seeds of earlier calls that today's settings refuse are
    left out: they were valid once.

    Raises:
        UsageError: a configured or new seed cannot be used.
    """
    own = [without_user(seed) for seed in (*collection.seeds, *new)]
    check_seeds(own, collection)
    earlier = [
        seed
        for seed in map(without_user, before.get("seeds", ()))
        if not seed_problem(seed, collection)
    ]
    return tuple(dict.fromkeys((*earlier, *own)))
