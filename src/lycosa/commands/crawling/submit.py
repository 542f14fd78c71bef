"""Submissions of URLs and of finds to a running or stopped crawl."""

from __future__ import annotations

from collections.abc import Sequence

from lycosa.commands.crawl_models import AddedUrls, FindSubmission
from lycosa.config.settings import Config
from lycosa.crawl.session.submission import submit
from lycosa.find.find import submit_find
from lycosa.url.normalise import typed_url


def submit_urls(root: str, config: Config, urls: Sequence[str], collection: str) -> AddedUrls:
    """Submit URLs. Raises as `lycosa.crawl.session.submission.submit`."""
    submitted = submit(root, config, [typed_url(url) for url in urls], collection)
    owner = submitted.owner
    return AddedUrls(
        root,
        submitted.collection,
        submitted.urls,
        submitted.file,
        owner is not None,
        owner.pid if owner is not None else 0,
    )


def submit_texts(
    root: str,
    config: Config,
    urls: Sequence[str],
    texts: Sequence[str],
    ignore: Sequence[str],
    collection: str,
    max_age_ms: int,
) -> FindSubmission:
    """Submit URLs whose pages, and all reachable ones, are searched for texts."""
    request = submit_find(
        root, config, [typed_url(url) for url in urls], texts, ignore, collection, max_age_ms
    )
    return FindSubmission(root, request.collection, request.order.id, request.running)
