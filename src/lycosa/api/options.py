"""The keyword arguments of the Python API, once for types, documentation and completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from lycosa.commands.page_models import FetchedPage
    from lycosa.core.parameters import Duration
    from lycosa.crawl.state.progress import Progress
    from lycosa.matching.matches import StoredMatch
    from lycosa.processes.threads import Stoppable


class SearchArguments(TypedDict, total=False):
    """Arguments of `Workspace.search`. Defaults: 10 results, by relevance, of this workspace.

    - `language`, `collection`, `site`: only pages in this language (ISO 639 code), of this
      collection, of this host or below a path of it (`example.org/docs`).
    - `order`: "date" for newest first; by default by relevance.
    - `per_host`: maximum number of results per host before those of other hosts; 0: no limit.
    - `copies`: also return pages with the same text.
    - `facets`: count all results by language, host, collection, type or date.
    - `explain`: return how each score is computed.
    - `feedback`: "on", "off" or "auto": add terms of the first results to the query.
    - `across`: also search in these languages; (): in all languages of the index.
    - `source_language`: language of the query, if it is not identified correctly.
    - `translate`: use these translations, such as "de:house=Haus|Gebäude".
    - `workspaces`, `peers`: search these workspaces and Lycosa servers too.
    - `local`: ignore the workspaces and peers of the configuration.
    """

    count: int
    offset: int
    language: str
    collection: str
    site: str
    order: str
    per_host: int
    copies: bool
    facets: Sequence[str]
    explain: bool
    feedback: str
    spelling: bool
    across: Sequence[str] | None
    source_language: str
    translate: Sequence[str]
    workspaces: Sequence[str]
    peers: Sequence[str]
    local: bool


class PassageArguments(TypedDict, total=False):
    """Arguments of `Texts.passages`. Defaults: 10 passages of at most 200 tokens.

    - `count`: maximum number of passages.
    - `max_tokens`: of each passage; `budget`: of all passages together. Tokens are estimated.
    - `language`, `collection`, `site`: only pages in this language (ISO 639 code), of this
      collection, of this host or below a path of it (`example.org/docs`).
    - `ranking`: "keyword", "vector" or "hybrid"; default: hybrid if an encoder is configured.
    """

    count: int
    max_tokens: int
    budget: int
    language: str
    collection: str
    site: str
    ranking: str


class TermsArguments(TypedDict, total=False):
    """Arguments of `WorkspaceStatistics.terms`. Defaults: the 50 most frequent words of all pages.

    - `since`, `until`: a day or time, UTC without a zone, or milliseconds since 1970 UTC.
    - `rising`: only words that are more frequent in the pages of the last `period`.
    - `stop_words`: include function words, and words spread evenly over the pages.
    """

    language: str
    site: str
    collection: str
    since: date | int
    until: date | int
    rising: bool
    period: Duration
    stop_words: bool
    count: int


class CrawlArguments(TypedDict, total=False):
    """Arguments of `Workspace.crawl`. Defaults: the settings of the collection, and no limit.

    - `max_time`, `delay`: seconds, a `timedelta`, or text such as "10m".
    - `depth`: maximum number of links from a seed.
    - `scope`: "host", "domain", "prefix" or "any": which links to follow.
    - `strategy`: "breadth-first", "depth-first", "server-first" or "best-first".
    - `start`: fetch only known unvisited URLs: from this URL on, or all ("unvisited").
    - `index`: update the search index.
    - `engine`, `address`, `workers`: crawl with several workers, here or on a Ray cluster.
    - `on_progress`: called several times a second with the counters.
    - `on_page`: called with each fetched page, not with several workers.
    - `on_start`: called with an object with a method `stop`, which ends the crawl early.

    An error of these functions ends the crawl and is raised.
    """

    collection: str
    max_pages: int | None
    max_time: Duration | None
    depth: int | None
    delay: Duration | None
    scope: str
    strategy: str
    start: str
    index: bool
    engine: str
    address: str
    workers: int | None
    on_progress: Callable[[Progress], None] | None
    on_page: Callable[[FetchedPage], None] | None
    on_start: Callable[[Stoppable], None] | None


class HuntArguments(TypedDict, total=False):
    """Arguments of `Workspace.hunt`. Default: stop after 30 s.

    - `seeds`: pages to start from; without any, matching pages of the index (`from_index`).
    - `time`, `pages`, `enough`: stop after this time, this many pages, this many relevant pages.
    - `time`, `delay`: seconds, a `timedelta`, or text such as "10m".
    - `strategy`: "best", "fish" or "shark": how to select links.
    - `agents`: number of concurrent requests.
    - `width`, `depth`: for fish and shark: links per page, steps without a relevant page.
    - `on_event`: called with each event of the hunt, see `lycosa hunt --jsonl`.
    """

    seeds: str | Iterable[str]
    time: Duration | None
    pages: int | None
    enough: int | None
    strategy: str
    from_index: bool | None
    agents: int
    width: int
    depth: int
    scope: str
    delay: Duration | None
    collection: str
    on_event: Callable[[dict[str, Any]], None] | None


class FindArguments(TypedDict, total=False):
    """Arguments of `Texts.find_in_site`.

    - `ignore`: "case", "accents", "width".
    - `max_age`: pages without a stored copy of this age are fetched first; default one day.
    - `on_match`: called with each match; `report`: with messages for people.
    """

    ignore: Sequence[str]
    collection: str
    max_age: Duration
    max_pages: int | None
    delay: Duration | None
    on_match: Callable[[StoredMatch], None]
    on_start: Callable[[Stoppable], None]
    report: Callable[[str], None]
