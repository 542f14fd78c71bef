"""Filters of a search: sites, languages, types, collections, links, dates. They do not affect
scores.
"""

from __future__ import annotations

from collections.abc import Iterable

import tantivy
from tantivy import FieldType, Occur, Query

from lycosa.core.dataclass import dataclass
from lycosa.index.schema import (
    AUTHOR,
    COLLECTION,
    DATE,
    HOST,
    KIND,
    LANGUAGE,
    LINKS,
    PATH,
    TYPE,
    link_key,
)
from lycosa.search.query import syntax
from lycosa.search.query.query import Restriction

Clause = tuple[Occur, Query]


@dataclass(slots=True, frozen=True)
class Filters:
    """`restrictions` are those of the query; the others are options of the request, "" is none.

    `host` includes its subdomains.
    """

    language: str = ""
    collection: str = ""
    host: str = ""
    restrictions: tuple[Restriction, ...] = ()

    @property
    def all(self) -> tuple[Restriction, ...]:
        outside = (
            (syntax.LANGUAGE, self.language),
            (syntax.COLLECTION, self.collection),
            (syntax.SITE, self.host),
        )
        return tuple(Restriction(name, value) for name, value in outside if value)

    @property
    def one_site(self) -> bool:
        """Whether the search is restricted to named sites."""
        return bool(self.host) or any(
            restriction.name == syntax.SITE and restriction.include
            for restriction in self.restrictions
        )


def filter_clauses(schema: tantivy.Schema, filters: Filters) -> list[Clause]:
    """Return the clauses of all filters. Of several values of an operator, any may match."""
    clauses: list[Clause] = [(Occur.Must, _query(schema, outside)) for outside in filters.all]
    by_name: dict[str, list[Query]] = {}
    for restriction in filters.restrictions:
        if restriction.name == syntax.SIMILAR:
            continue  # not a filter
        if not restriction.include:
            clauses.append((Occur.MustNot, _query(schema, restriction)))
        else:
            by_name.setdefault(restriction.name, []).append(_query(schema, restriction))
    return clauses + [(Occur.Must, _any(queries)) for queries in by_name.values()]


def _query(schema: tantivy.Schema, restriction: Restriction) -> Query:
    name, value = restriction.name, restriction.value
    if name == syntax.SITE:
        host, _, path = value.partition("/")
        at_host = _exact(schema, HOST, host.lower())
        return (
            Query.boolean_query([(Occur.Must, at_host), (Occur.Must, _exact(schema, PATH, path))])
            if path
            else at_host
        )
    if name == syntax.LINK:
        return _any(
            [
                _unscored(Query.term_query(schema, LINKS, link_key(target)))
                for target in link_targets(value)
            ]
        )
    if name == syntax.BEFORE:
        return _unscored(
            Query.range_query(
                schema,
                DATE,
                FieldType.Integer,
                upper_bound=syntax.date_ms(value),
                include_upper=False,
            )
        )
    if name == syntax.AFTER:
        return _unscored(
            Query.range_query(schema, DATE, FieldType.Integer, lower_bound=syntax.date_ms(value))
        )
    if name == syntax.AUTHOR:
        words = [(Occur.Must, _exact(schema, AUTHOR, word)) for word in value.split("+")]
        return Query.boolean_query(words)
    return _exact(schema, _FIELDS[name], value)


_FIELDS = {
    syntax.LANGUAGE: LANGUAGE,
    syntax.COLLECTION: COLLECTION,
    syntax.FILETYPE: TYPE,
    syntax.TYPE: KIND,
}


def link_targets(value: str) -> list[str]:
    """Return the targets of `link:`: a URL; without a scheme, both schemes; a host: its pages."""
    if "://" in value:
        return [value]
    if "/" not in value:
        return [f"//{value}"]
    return [f"http://{value}", f"https://{value}"]


def _exact(schema: tantivy.Schema, name: str, value: str) -> Query:
    return _unscored(Query.term_query(schema, name, value, "basic"))


def _unscored(query: Query) -> Query:
    return Query.const_score_query(query, 0.0)


def _any(queries: Iterable[Query]) -> Query:
    listed = list(queries)
    return (
        listed[0]
        if len(listed) == 1
        else Query.boolean_query([(Occur.Should, query) for query in listed])
    )
