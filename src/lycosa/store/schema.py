"""The tables' columns: the public contract. Columns are added, a meaning is never changed.

Plain data, so that documentation, checks and light programs can read it without a table library. Types:

    u16 u32 u64 i64 f64 bool text    numbers, truth, UTF-8
    time                             milliseconds since 1970-01-01 UTC; null: never
    list[text], list[i64]            lists
    list[a:text,b:i64]               lists of structs with these fields

Every table starts with partition, host_key, url_key, and every file's rows are sorted by them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Column:
    """One column: name, type (see the module's text), meaning in one line, and whether it may be null."""

    name: str
    type: str
    meaning: str
    nullable: bool = False


@dataclass(slots=True, frozen=True)
class Table:
    """One table. `key` names the columns of which only the latest row is live; empty: every row is."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    group_rows: int = 50_000  # most rows in a Parquet row group

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _columns(text: str) -> tuple[Column, ...]:
    """Columns from lines of `name type meaning`; `?` behind a type: may be null."""
    columns = []
    for line in filter(None, text.splitlines()):
        name, kind, meaning = line.split(None, 2)
        columns.append(Column(name, kind.rstrip("?"), meaning, kind.endswith("?")))
    return tuple(columns)


_KEYS = """
partition u16 the share of the hosts that the host belongs to: xxh3_64(registrable domain) mod the workspace's partitions
host_key u64 xxh3_64 of the hostname
url_key u64 xxh3_64 of the normalised URL
"""

_SOURCE_KEYS = """
partition u16 the source's partition
host_key u64 xxh3_64 of the source's hostname
url_key u64 xxh3_64 of the source's URL
"""

VISITS = Table(
    "visits",
    "One row for each exchange and collection that wanted it: pages, redirects, errors, robots.txt.",
    _columns(
        _KEYS
        + """
url text the URL that was asked for
host text its hostname
kind text what it was for: page, robots, sitemap, feed, document, check, login, requisite (of a page being rendered)
collection text the collection that wanted it
depth i64 how many links from a seed
fetched_at time when the exchange began
duration_ms i64 how long it took
ip text the address that was dialled
protocol text http/1.0, http/1.1, h2 or h3
http_status u16 the status; 0: no answer
error text why there is no whole answer (closed vocabulary), empty if there is
content_type text the media type that the answer claims: lower case, without parameters
content_length i64 bytes of the body as transferred
server text the Server header
redirect_to text where a redirect leads, normalised
etag text the ETag header
last_modified text the Last-Modified header
digest text sha1:BASE32 of the payload, as in WARC-Payload-Digest
changed bool whether the text differs from the visit before
links_count i64 links found in the page
referrer text the page that led here first
attempt i64 1 for the first attempt, then counted up
truncated text why the body was cut: length, time, disconnect, unspecified (not of a wanted type), decoded; empty if it was not
record_id text WARC-Record-ID of the response, revisit or (without answer) metadata record
warc_file text the WARC, relative to the workspace; empty for checks that were committed by themselves
warc_offset i64 where the record starts in it
warc_length i64 compressed bytes of the record
verdict text? of a check: up, or why not: dns, connect, tls, timeout, status, content; else null
dns_ms f64? of a check: until the name was looked up
connect_ms f64? of a check: from there until the connection stood
tls_ms f64? of a check: from there until it was encrypted; null for http
first_byte_ms f64? of a check: from there until the first byte of the answer
certificate_until time? of a check: when the server's certificate ends
"""
    ),
    group_rows=10_000,
)

PAGES = Table(
    "pages",
    "What was understood of a fetched document: one row for each parse and collection; the latest is live.",
    _columns(
        _KEYS
        + """
url text the page's URL
fetched_at time when its exchange began
collection text the collection that wanted it
title text the title
headline text the first h1, or what the page marks as its headline
description text the meta description
headings list[text] h1 to h6 in order
main_text text the article, without navigation and boilerplate; blocks joined by newline
text text all that is visible; blocks joined by newline
language text ISO 639 code, identified from the text; empty: unknown
language_score f64 0 to 1
other_languages list[text] further languages in the text
charset text the encoding it was read with
published_at time? the date that the page gives itself
canonical text? the canonical URL that the page names
may_index bool no noindex in its robots meta tags and headers
may_follow bool no nofollow in its robots meta tags and headers
redirect_from text? the URL whose redirect led here; null: none
size i64 bytes of the decoded body
text_digest u64 xxh3_64 of text
simhash u64 64-bit simhash of the words
faults list[text] what was wrong with the document
alternates list[language:text,url:text] declared translations (hreflang)
record_id text WARC-Record-ID of the exchange it was parsed from
"""
    ),
    key=("collection", "host_key", "url_key"),
    group_rows=500,
)

LINKS = Table(
    "links",
    "Every link that was parsed, followed or not. The rows of a source's newest parse are live.",
    _columns(
        _SOURCE_KEYS
        + """
source text the page that holds the link, or the URL that redirects
target text where it leads: absolute, normalised, without fragment
anchor text the link's text
rel text the rel attribute: lower case tokens joined by a space
kind text a, area, frame, iframe, image, canonical, alternate, feed, sitemap, redirect, refresh, requisite
position i64 its place among the page's links, from 0
found_at time when the exchange that showed it began
"""
    ),
)

URLS = Table(
    "urls",
    "The state of each URL of each collection. The latest row is live.",
    _columns(
        _KEYS
        + """
url text the normalised URL
collection text the collection
operation text what is to be done besides crawling; empty: nothing
depth i64 how many links from a seed, at least
state text known, visited, gone, excluded
reason text why it is excluded or gone, or why the last visit failed
state_at time? since when it is in this state
priority f64 higher is earlier
not_before time? not to be fetched before
first_seen_at time? when it was seen first
visited_at time? when it was last fetched
referrer text the page that led here first
redirects i64 redirect hops behind it
redirect_from text? the URL whose redirect led here; null: none
fails i64 failures in a row
checks i64 visits after the first
changes i64 visits that found another text
etag text the ETag of the last visit
last_modified text the Last-Modified of the last visit
digest text the payload digest of the last visit
text_digest u64 xxh3_64 of the text at the last visit; 0: no text
captured_at time? when the payload was last archived whole
record_id text WARC-Record-ID of that capture
importance f64 how much the page matters, from links to it and its depth; 0: not known
change_rate f64 changes a day, estimated; 0: not known
claim f64 chance that it changed since its last visit, as a sitemap or feed says; 0: nothing said
silence f64 chance that a change would have been announced; 0: nothing announces here
history list[f64] what its visits said of its changes: sufficient statistics of the estimate; empty: nothing
"""
    ),
    key=("collection", "operation", "host_key", "url_key"),
)

HOSTS = Table(
    "hosts",
    "A host's clock, robots files and counts; a row with an empty host holds its registrable domain's. The latest row is live.",
    _columns(
        """
partition u16 the partition of its registrable domain
host_key u64 xxh3_64 of the hostname (of the registrable domain where host is empty)
url_key u64 always 0
host text the hostname; all its ports and schemes share this row
registrable_domain text the domain that somebody registered; an address is its own
first_seen_at time? when it was seen first
last_visit_at time? when it was last asked for anything
ip text the address last dialled
server text its last Server header
robots list[origin:text,status:i64,fetched_at:i64,expires_at:i64,body:text] each origin's robots.txt as last fetched (times in ms)
delay i64 the usual pause after a fetch, back-off and Retry-After left out, in milliseconds
not_before time? not to be asked before
latency f64 moving mean of the transfer time, in milliseconds
fails i64 failures in a row
known i64 URLs in state known when this row was written; of a host at rest more may have been found since
visited i64 URLs in state visited
pages i64 pages ever committed
bytes i64 body bytes ever transferred
budget i64? pages it may ever hold; null: no limit
traps list[name:text,count:i64] trap counters
claims_right f64? claims of a change (lastmod in sitemaps and feeds) that a visit found true
claims_wrong f64? claims that a visit found untrue
claims_missed f64? changes of listed pages that nothing had announced
"""
    ),
    key=("host_key", "host"),
    group_rows=10_000,
)

FOUND = Table(
    "found",
    "Links into partitions that the worker did not hold. Rows that their partition's owner has not applied yet are live.",
    _columns(
        _KEYS
        + """
collection text the collection
operation text the operation, inherited from the source
url text the URL that was found
source text the page that it was found on
anchor text the link's text
kind text the kind of link
depth i64 how many links from a seed on this way
priority f64 higher is earlier
redirects i64 redirect hops behind it
redirect_from text? the URL whose redirect led here; null: none
first_seen_at time? when it was found
modified_at time? when a sitemap or feed says that it changed last
"""
    ),
)

MATCHES = Table(
    "matches",
    "Texts of watches and of `find`, where they stood: one row for each version of a page and each text.",
    _columns(
        _KEYS
        + """
url text the page
watch text the id of the watch, or of the call of `find`
text text the text that was looked for
positions list[i64] character offsets in the page's text, the first 1,000
found_at time when the page was fetched
collection text the collection that wanted the page
count i64 how often the text stands in the page
context text what stands around the first place
record_id text WARC-Record-ID of the exchange that brought the page
"""
    ),
)

TABLES: dict[str, Table] = {table.name: table for table in (VISITS, PAGES, LINKS, URLS, HOSTS, FOUND, MATCHES)}
"""All tables by name."""

SORT = ("partition", "host_key", "url_key")
"""The order of the rows in every file."""
