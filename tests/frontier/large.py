"""Generate a large crawl state: known URLs on hosts of power-law size.

The rows are written by real commits. The first commits each cover one key range, like compacted
files; a host is never split between two ranges. The rows of the later commits are spread over all
keys, like those of a worker: they mark a few per cent of the URLs as visited and supersede the
earlier rows. Keys, partitions, order and columns are those of a crawl. The tables of visits and
pages stay empty, so `lycosa check` reports one error. The same seed gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from xxhash import xxh3_64_intdigest

from lycosa.core.records import UrlState
from lycosa.store.log.claim import Claim
from lycosa.store.tables.files import polars_schema, write_table
from lycosa.store.tables.schema import TABLES
from lycosa.store.workspace import Workspace

COLLECTION = "default"
START_MS = 1_790_000_000_000
RANGE_ROWS = 500_000
"""Rows in the commit of one key range. The generator needs a few hundred bytes per row."""

_WORD_LIST = """
about after again air all always animal answer apple art autumn back bank beach bear best big bird black blue board boat body book
border bread bridge bright bring brother budget build business butter camera camp capital card care carry case castle cat centre change
chapter child choice church city class clean climate clock close cloud coast coffee cold college colour common company concert cook
corner council country court cross culture dance dark data daughter day deal debate deep design desk dinner director doctor door dream
drive early earth east easy economy election energy engine evening event every eye fact family farm fast father festival field film
final fire first fish flight floor flower food football forest free fresh friend future game garden gate girl glass gold good
government great green ground group guide hall hand happy harbour head health heart heavy help high hill history holiday home horse
hospital hotel hour house idea island job journey judge kitchen lake land language large law leader letter library life light line
little local long love machine market match meeting memory metal milk minister model money month moon morning mother mountain music
name nation night north novel number ocean office open order paper park party peace people phone picture place plan plant player police
power press price prize project public question radio rain reader record red report rescue river road room rule sale school science
season second secret service shop silver small snow song south space spring station stone story street student summer sun table teacher
team test theatre time tour town trade train travel tree trial university valley village voice wall water west white wind window winter
woman wood word work world writer year young
"""
_WORDS = _WORD_LIST.split()
_SECTIONS = [
    "news",
    "politics",
    "sport",
    "culture",
    "science",
    "economy",
    "travel",
    "opinion",
    "local",
    "video",
    "people",
    "weather",
]
_SUFFIXES = [
    "com",
    "com",
    "com",
    "com",
    "org",
    "net",
    "de",
    "fr",
    "it",
    "pl",
    "ru",
    "nl",
    "es",
    "info",
    "cz",
    "se",
]
_SUBDOMAINS = [
    "www",
    "www",
    "www",
    "www",
    "www",
    "blog",
    "shop",
    "news",
    "forum",
    "wiki",
    "m",
    "docs",
    "support",
    "static",
]
_HOST_SIZE_EXPONENT = 1.05  # power law: a few hosts have most of the URLs
_MAX_HOST_SHARE = 0.01  # maximum share of the URLs that one host has

_Integers = npt.NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class Plan:
    """Size of the generated state."""

    urls: int = 10_000_000
    hosts: int = 1_000_000
    visited: float = 0.04  # share of the URLs
    worker_commits: int = 20  # commits that contain the visited URLs
    seed: int = 1


class FrameBuffer:
    """A table buffer that is backed by a data frame."""

    def __init__(self, table: str, frame: pl.DataFrame) -> None:
        self._table = TABLES[table]
        self.frame = frame.select(
            [pl.col(name).cast(kind) for name, kind in polars_schema(self._table).items()]
        )

    @property
    def rows(self) -> int:
        return self.frame.height

    def write(self, path: str) -> None:
        write_table(self.frame, path, self._table)


def build(workspace_root: str, plan: Plan) -> Workspace:
    """Create a workspace with the planned state.

    10 million URLs take about 75 s and 1.3 GB of memory.
    """
    workspace = Workspace.create(workspace_root)
    claim = workspace.claim("generator")
    random = np.random.default_rng(plan.seed)
    hosts = _hosts(plan, random, workspace.partitions)
    visited: list[pl.DataFrame] = []
    for part in _ranges(hosts):
        urls = _urls(part, random)
        visited_part = _visited(urls, plan.visited, random)
        visited.append(visited_part)
        _commit(claim, urls=urls, hosts=_host_rows(part, urls, visited_part))
    visited_urls = pl.concat(visited)
    commit_numbers = random.integers(0, plan.worker_commits, visited_urls.height)
    for number in range(plan.worker_commits):
        _commit(claim, urls=visited_urls.filter(pl.Series(commit_numbers == number)))
    claim.release()
    return workspace


def _commit(claim: Claim, **frames: pl.DataFrame) -> None:
    claim.commit(
        claim.next_folder(), {table: FrameBuffer(table, frame) for table, frame in frames.items()}
    )


def _hosts(plan: Plan, random: np.random.Generator, partitions: int) -> pl.DataFrame:
    """Return the hosts with their keys, sizes and URL styles.

    The rows are sorted like those of a file.
    """
    words = np.array(_WORDS)
    names: list[str] = []
    domains: list[str] = []
    while len(names) < plan.hosts:
        count = plan.hosts // 2 + 1
        left, right = (
            words[random.integers(0, len(words), count)],
            words[random.integers(0, len(words), count)],
        )
        suffixes = np.array(_SUFFIXES)[random.integers(0, len(_SUFFIXES), count)]
        breadth = np.minimum(random.zipf(2.2, count), 300)
        labels = np.array(_SUBDOMAINS)[random.integers(0, len(_SUBDOMAINS), count)]
        first = len(domains)
        for offset, (one, two, suffix, width, label) in enumerate(
            zip(left, right, suffixes, breadth, labels, strict=True)
        ):
            domain = f"{one}{two}{first + offset}.{suffix}"
            domains.append(domain)
            names.append(f"{label}.{domain}")
            names.extend(
                f"{words[number % len(words)]}{number}.{domain}" for number in range(1, int(width))
            )
    names = names[: plan.hosts]
    frame = pl.DataFrame({"host": names}).with_columns(
        domain=pl.col("host").str.replace(r"^[^.]+\.", "")
    )
    return frame.with_columns(
        partition=_keys(frame["domain"]) % partitions,
        host_key=_keys(frame["host"]),
        size=pl.Series(_sizes(plan, random)),
        style=pl.Series(random.integers(0, 4, plan.hosts, dtype=np.int8)),
    ).sort("partition", "host_key")


def _sizes(plan: Plan, random: np.random.Generator) -> _Integers:
    """Return the number of URLs per host, by a power law.

    Each host has at least one URL; the total is `plan.urls`.
    """
    max_size = max(2.0, plan.urls * _MAX_HOST_SHARE)
    excess = np.minimum(random.random(plan.hosts) ** (-1 / _HOST_SIZE_EXPONENT), max_size) - 1
    spare = plan.urls - plan.hosts
    sizes: _Integers = 1 + np.floor(excess * spare / max(float(excess.sum()), 1.0)).astype(np.int64)
    missing = plan.urls - int(sizes.sum())
    sizes[random.choice(plan.hosts, missing % plan.hosts, replace=False)] += 1
    return sizes + missing // plan.hosts


def _ranges(hosts: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Split the hosts into ranges of about RANGE_ROWS URLs."""
    number = hosts["size"].cum_sum() // RANGE_ROWS
    yield from hosts.with_columns(range=number).partition_by(
        "range", maintain_order=True, include_key=False
    )


def _urls(hosts: pl.DataFrame, random: np.random.Generator) -> pl.DataFrame:
    """Return the rows of `urls` of these hosts, all in the state "known"."""
    sizes = hosts["size"].to_numpy()
    rows = int(sizes.sum())
    host_index = np.repeat(np.arange(hosts.height), sizes)
    starts = np.cumsum(sizes) - sizes
    page_number = np.arange(rows) - starts[host_index]  # 0 is the host's front page
    frame = hosts[host_index].with_columns(
        number=pl.Series(page_number), _year=pl.Series(random.integers(2015, 2027, rows))
    )
    frame = frame.with_columns(
        [_sample(f"w{number}", _WORDS, rows, random) for number in range(6)]
        + [
            _sample("section", _SECTIONS, rows, random),
            pl.Series("day", random.integers(0, 336, rows)),
        ]
    )
    urls = frame.select(pl.format("https://{}{}", pl.col("host"), _path())).to_series()
    # a few pages of each host link to most of its pages
    hub: _Integers = (page_number * random.random(rows) ** 4).astype(np.int64)
    source = np.where(
        random.random(rows) < 0.1,
        starts[random.integers(0, hosts.height, rows)],
        starts[host_index] + hub,
    )
    seen = START_MS - 1_000 * (source % 100_003) - 86_400_000 * (host_index % 90)
    depth = 1 + np.floor(np.log(page_number + 1) / np.log(7)).astype(np.int64) + host_index % 3
    frame = frame.select("partition", "host_key").with_columns(
        url_key=_keys(urls),
        url=urls,
        depth=pl.Series(depth),
        referrer=urls[source],
        first_seen_at=pl.Series(seen),
    )
    return frame.unique(subset=["url"], keep="first", maintain_order=True).select(
        *("partition", "host_key", "url_key", "url"),
        collection=pl.lit(COLLECTION),
        operation=pl.lit(""),
        depth="depth",
        state=pl.lit(UrlState.KNOWN.value),
        reason=pl.lit(""),
        state_at="first_seen_at",
        priority=pl.lit(0.0),
        not_before=pl.lit(None),
        first_seen_at="first_seen_at",
        visited_at=pl.lit(None, dtype=pl.Int64),
        referrer="referrer",
        redirects=pl.lit(0),
        redirect_from=pl.lit(None),
        fails=pl.lit(0),
        checks=pl.lit(0),
        changes=pl.lit(0),
        etag=pl.lit(""),
        last_modified=pl.lit(""),
        digest=pl.lit(""),
        text_digest=pl.lit(0),
        captured_at=pl.lit(None),
        record_id=pl.lit(""),
        importance=pl.lit(0.0),
        change_rate=pl.lit(0.0),
        claim=pl.lit(0.0),
        silence=pl.lit(0.0),
        history=pl.lit([], dtype=pl.List(pl.Float64)),
    )


def _path() -> pl.Expr:
    words = [pl.col(f"w{number}") for number in range(6)]
    month, day = 1 + pl.col("day") // 28, 1 + pl.col("day") % 28
    number = pl.col("number")
    dated = pl.format(
        "/{}/{}/{}/{}/", pl.col("_year"), month, day, pl.concat_str(words, separator="-")
    )
    product = pl.format(
        "/{}/{}-{}.html", pl.col("section"), pl.concat_str(words[:3], separator="-"), number
    )
    article = pl.format(
        "/wiki/{}_({})",
        pl.concat_str([word.str.to_titlecase() for word in words[:2]], separator="_"),
        number,
    )
    forum = pl.format("/viewtopic?f={}&t={}", pl.col("day") % 12, number)
    styles = pl.when(pl.col("style") == 0).then(dated).when(pl.col("style") == 1).then(product)
    return (
        pl.when(number == 0)
        .then(pl.lit("/"))
        .otherwise(styles.when(pl.col("style") == 2).then(article).otherwise(forum))
    )


def _visited(urls: pl.DataFrame, share: float, random: np.random.Generator) -> pl.DataFrame:
    """Return a sample of the rows as visited.

    Front pages are sampled more often than others.
    """
    front = urls["url"].str.ends_with("/") & (urls["url"].str.len_bytes() < 50)
    chance = np.where(front.to_numpy(), 3 * share, share)
    rows = urls.filter(pl.Series(random.random(urls.height) < chance))
    when = pl.Series(START_MS + random.integers(0, 86_400_000, rows.height))
    digests = [
        f"sha1:{number:032X}" for number in random.integers(0, 1 << 62, rows.height).tolist()
    ]
    return rows.with_columns(
        state=pl.lit(UrlState.VISITED.value),
        state_at=when,
        visited_at=when,
        digest=pl.Series(digests, dtype=pl.String),
    )


def _host_rows(hosts: pl.DataFrame, urls: pl.DataFrame, visited: pl.DataFrame) -> pl.DataFrame:
    visit_counts = visited.group_by("host_key").agg(
        visited=pl.len(), last_visit_at=pl.col("visited_at").max()
    )
    row_counts = urls.group_by("host_key").agg(
        rows=pl.len(), first_seen_at=pl.col("first_seen_at").min()
    )
    frame = hosts.join(row_counts, on="host_key").join(visit_counts, on="host_key", how="left")
    count = pl.col("visited").fill_null(0)
    robots = pl.struct(
        origin=pl.format("https://{}", pl.col("host")),
        status=pl.lit(404, dtype=pl.Int64),
        fetched_at=pl.col("last_visit_at"),
        expires_at=pl.col("last_visit_at") + 86_400_000,
        body=pl.lit(""),
    )
    types = polars_schema(TABLES["hosts"])
    return frame.select(
        *("partition", "host_key"),
        url_key=pl.lit(0),
        host="host",
        registrable_domain="domain",
        first_seen_at="first_seen_at",
        last_visit_at="last_visit_at",
        ip=pl.lit(""),
        server=pl.lit(""),
        robots=pl.when(count > 0)
        .then(pl.concat_list(robots))
        .otherwise(pl.lit([], dtype=types["robots"])),
        delay=pl.lit(1_000),
        not_before=pl.lit(None),
        latency=pl.lit(0.0),
        fails=pl.lit(0),
        known=pl.col("rows") - count,
        visited=count,
        pages=count,
        bytes=count * 30_000,
        budget=pl.lit(None),
        traps=pl.lit([], dtype=types["traps"]),
        **{name: pl.lit(0.0) for name in ("claims_right", "claims_wrong", "claims_missed")},
    )


def _sample(name: str, texts: list[str], rows: int, random: np.random.Generator) -> pl.Series:
    return pl.Series(texts)[random.integers(0, len(texts), rows, dtype=np.uint32)].alias(name)


def _keys(texts: pl.Series) -> pl.Series:
    return pl.Series(
        [xxh3_64_intdigest(text.encode()) for text in texts.to_list()], dtype=pl.UInt64
    )
