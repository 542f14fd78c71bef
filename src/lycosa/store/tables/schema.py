"""The columns of the tables, a public contract: columns may be added, meanings never change.

Plain data, readable without a table library. Types:

    u16 u32 u64 i64 f64 bool text    numbers, booleans, UTF-8
    time                             milliseconds since 1970-01-01 UTC; null: never
    list[text], list[i64]            lists
    list[a:text,b:i64]               lists of structs with these fields

Every table starts with partition, host_key, url_key, and every file's rows are sorted by them.
"""

from __future__ import annotations

from lycosa.core.dataclass import dataclass


@dataclass(slots=True, frozen=True)
class TableColumn:
    """Name, type (see above), meaning in one line, and whether the column may be null."""

    name: str
    type: str
    meaning: str
    nullable: bool = False


@dataclass(slots=True, frozen=True)
class Table:
    """One table. Of rows with the same `key` only the latest is live. Of rows with the same
    `source`, those of its newest parse are; `parsed_at` is the column with its time. Without both
    all rows are live.
    """

    name: str
    meaning: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    parsed_at: str = ""
    group_rows: int = 50_000  # maximum rows in a Parquet row group

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _columns(text: str) -> tuple[TableColumn, ...]:
    """Parse lines of `name type meaning`; `?` after a type: may be null."""
    columns = []
    for line in filter(None, text.splitlines()):
        name, kind, meaning = line.split(None, 2)
        columns.append(TableColumn(name, kind.rstrip("?"), meaning, kind.endswith("?")))
    return tuple(columns)


_KEYS = """
partition u16 partition of the host: xxh3_64(registrable domain) mod the number of partitions
host_key u64 xxh3_64 of the hostname
url_key u64 xxh3_64 of the normalised URL
"""

_SOURCE_KEYS = """
partition u16 partition of the source page
host_key u64 xxh3_64 of the hostname of the source page
url_key u64 xxh3_64 of the URL of the source page
"""

VISITS = Table(
    "visits",
    "One row per request and collection: pages, redirects, errors, robots.txt.",
    _columns(
        _KEYS
        + """
url text requested URL
host text hostname of the URL
kind text page, robots, sitemap, feed, document, check, login, requisite (of a rendered page)
collection text collection that requested it
depth i64 number of links from a seed
fetched_at time start of the request
duration_ms i64 duration in milliseconds
ip text IP address of the server
protocol text http/1.0, http/1.1, h2 or h3
http_status u16 status code; 0: no response
error text reason for a missing or incomplete response (see fetch-errors.md); empty: complete
content_type text media type of the Content-Type header: lower case, without parameters
content_length i64 bytes of the body as transferred
server text Server header
redirect_to text normalised target of a redirect
etag text ETag header
last_modified text Last-Modified header
digest text payload digest as in WARC-Payload-Digest: sha1:BASE32
changed bool whether the text differs from the previous visit
links_count i64 number of links in the page
referrer text first page that linked to the URL
attempt i64 number of the attempt, from 1
truncated text why the body is cut: length, time, disconnect, unspecified, decoded; or empty
record_id text WARC-Record-ID of the response, revisit or (without a response) metadata record
warc_file text path of the WARC file in the workspace; empty without a record (checks, copies)
warc_offset i64 offset of the record in the file
warc_length i64 compressed size of the record in bytes
verdict text? of a check: up, dns, connect, tls, timeout, status, content; otherwise null
dns_ms f64? of a check: milliseconds for name resolution
connect_ms f64? of a check: milliseconds for connecting, after name resolution
tls_ms f64? of a check: milliseconds for the TLS handshake; null for http
first_byte_ms f64? of a check: milliseconds from the request to the first byte
certificate_until time? of a check: expiry of the server certificate
"""
    ),
    group_rows=10_000,
)

PAGES = Table(
    "pages",
    "Parsed documents: one row per parse and collection; the latest is live.",
    _columns(
        _KEYS
        + """
url text URL of the page
fetched_at time start of the request
collection text collection that requested it
title text content of the title element
headline text first h1, or the headline that the page marks
description text meta description
headings list[text] h1 to h6 in document order
main_text text main text without navigation and boilerplate; blocks separated by newlines
main_lines list[u32] lines of text that are main_text: a first line, the line after a last one, …
text text all visible text; blocks separated by newlines
markdown text? main content as Markdown; null: not stored (setting `collection.markdown`)
language text ISO 639 code of the identified language; empty: unknown
language_score f64 confidence of the language, 0 to 1
other_languages list[text] other languages in the text
declared_language text code of the language that the page or its headers declare; empty: none
language_share f64 1: declaration, URL and title fit the text; 0.75: the title fits; 0.5: none
page_type text article, collection, documentation, forum, listing, product, service; empty: none
charset text character encoding used for decoding
published_at time? publication date that the page states
canonical text? canonical URL that the page states
may_index bool no noindex in robots meta tags and headers
may_follow bool no nofollow in robots meta tags and headers
redirect_from text? URL that redirected here; null: none
size i64 size of the decoded body in bytes
text_digest u64 xxh3_64 of the text
simhash u64 64-bit simhash of the words
faults list[text] errors in the document
alternates list[language:text,url:text] declared translations (hreflang)
record_id text WARC-Record-ID of the parsed response
plugin_values text values of the columns that plug-ins add, as a JSON object; empty: none
"""
    ),
    key=("collection", "host_key", "url_key"),
    group_rows=500,
)

METADATA = Table(
    "metadata",
    "What parsed documents declare about themselves: one row per row of pages, with the same keys; "
    "the latest is live.",
    _columns(
        _KEYS
        + """
url text URL of the page
fetched_at time start of the request
collection text collection that requested it
type text type of schema.org, such as NewsArticle or Product; empty: none
headline text title without the name of the site
authors list[text] names of the authors
published_at time? date of publication, never later than the fetch
modified_at time? date of the last modification, never later than the fetch
description text description of the content
image text absolute URL of the main image
language text code of the declared language
site_name text name of the site
publisher text publisher of an article, brand of a product
section text section of a publication, category of a product
keywords list[text] keywords and tags
license text licence: its URL or name
price f64? price of a product, the lowest of several offers
currency text currency of the price (ISO 4217)
availability text availability in terms of schema.org, such as InStock
rating f64? mean rating
best_rating f64? highest possible rating; null: unknown
rating_count i64? number of ratings or reviews
raw text declared values by format, a JSON object: at most 60,000 characters of values
record_id text WARC-Record-ID of the parsed response
"""
    ),
    key=("collection", "host_key", "url_key"),
    group_rows=5_000,
)

ITEMS = Table(
    "items",
    "Items that the schemas of a collection extract from pages. The rows of the newest parse of a "
    "page are live. `items_NAME` has those of a schema with a typed column per field.",
    _columns(
        _KEYS
        + """
url text URL of the page
fetched_at time start of the request
collection text collection of the page
schema text name of the schema
position i64? position among the items of the schema in the page, from 0
valid bool no required field is missing
values text values by field, a JSON object
missing list[text] fields whose selector selected nothing
problems list[field:text,selector:text,value:text,problem:text] values that do not fit their field
record_id text WARC-Record-ID of the parsed response
"""
    ),
    source=("collection", "host_key", "url_key"),
    parsed_at="fetched_at",
    group_rows=5_000,
)

LINKS = Table(
    "links",
    "All parsed links, followed or not. The rows of the newest parse of a source page are live.",
    _columns(
        _SOURCE_KEYS
        + """
source text page with the link, or redirecting URL
target text link target: absolute, normalised, without fragment
anchor text anchor text
rel text tokens of the rel attribute: lower case, separated by spaces
kind text a, area, frame, iframe, image, canonical, alternate, feed, redirect, refresh, requisite
position i64 position among the links of the page, from 0
found_at time start of the request of the source page
"""
    ),
    source=("host_key", "url_key"),
    parsed_at="found_at",
)

URLS = Table(
    "urls",
    "State of each URL per collection. The latest row is live.",
    _columns(
        _KEYS
        + """
url text normalised URL
collection text collection
operation text operation other than crawling; empty: none
depth i64 smallest number of links from a seed
state text known, visited, gone, excluded
reason text reason for the state excluded or gone, or for the last failure
state_at time? start of this state
priority f64 queue priority; higher values first
not_before time? earliest time of the next fetch
first_seen_at time? first time seen
visited_at time? time of the last fetch
referrer text first page that linked to the URL
redirects i64 number of redirects before this URL
redirect_from text? URL that redirected here; null: none
fails i64 consecutive failures
checks i64 fetches after the first
changes i64 fetches that found a changed text
etag text ETag of the last visit
last_modified text Last-Modified of the last visit
digest text payload digest of the last visit
text_digest u64 xxh3_64 of the text of the last visit; 0: no text
captured_at time? time of the last complete capture in the archive
record_id text WARC-Record-ID of that capture
importance f64 importance of the page, from incoming links and depth; 0: unknown
change_rate f64 estimated changes per day; 0: unknown
claim f64 probability of a change since the last visit by sitemap or feed; 0: no information
silence f64 probability that a sitemap or feed would announce a change; 0: none does
history list[f64] sufficient statistics of the change rate estimate; empty: none
"""
    ),
    key=("collection", "operation", "host_key", "url_key"),
)

HOSTS = Table(
    "hosts",
    "Schedule, robots.txt files and counters of a host; rows with an empty host describe a "
    "registrable domain. The latest row is live.",
    _columns(
        """
partition u16 partition of the registrable domain
host_key u64 xxh3_64 of the hostname (of the registrable domain if host is empty)
url_key u64 always 0
host text hostname; all ports and schemes of a host share this row
registrable_domain text registrable domain; for an IP address, the address
first_seen_at time? first time seen
last_visit_at time? time of the last request
ip text IP address of the last connection
server text last Server header
robots list[origin:text,status:i64,fetched_at:i64,expires_at:i64,body:text] robots.txt by origin
delay i64 delay between requests in milliseconds, without back-off and Retry-After
not_before time? earliest time of the next request
latency f64 moving average of the transfer time in milliseconds
fails i64 consecutive failures
known i64 URLs in state known when this row was written; an inactive host may have more
visited i64 URLs in state visited
pages i64 pages committed since the first crawl
bytes i64 body bytes transferred since the first crawl
budget i64? maximum number of pages; null: no limit
traps list[name:text,count:i64] counters of crawler traps
claims_right f64? announced changes (lastmod in sitemaps and feeds) that a visit confirmed
claims_wrong f64? announced changes that a visit did not confirm
claims_missed f64? changes of listed pages that were not announced
"""
    ),
    key=("host_key", "host"),
    group_rows=10_000,
)

FOUND = Table(
    "found",
    "Links into partitions of other workers. Rows that the owner of the partition has not "
    "processed yet are live.",
    _columns(
        _KEYS
        + """
collection text collection
operation text operation, inherited from the source
url text discovered URL
source text page with the link
anchor text anchor text
kind text kind of link
depth i64 number of links from a seed on this path
priority f64 queue priority; higher values first
redirects i64 number of redirects before this URL
redirect_from text? URL that redirected here; null: none
first_seen_at time? time of discovery
modified_at time? time of the last change according to a sitemap or feed
"""
    ),
)

MATCHES = Table(
    "matches",
    "Matches of watches and of `find`: one row per page version and pattern.",
    _columns(
        _KEYS
        + """
url text URL of the page
watch text ID of the watch or of the `find` call
text text matched pattern
positions list[i64] character offsets in the text of the page, at most 1,000
found_at time time of the fetch
collection text collection of the page
count i64 number of matches in the page
context text text around the first match
record_id text WARC-Record-ID of the response
"""
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (VISITS, PAGES, METADATA, ITEMS, LINKS, URLS, HOSTS, FOUND, MATCHES)
}
"""All tables by name."""

SORT = ("partition", "host_key", "url_key")
"""The order of the rows in every file."""
