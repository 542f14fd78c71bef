"""Analysis: export the pages of a site as Parquet files and query them with DuckDB.

    pip install duckdb
    python parquet_duckdb.py https://example.org/

The files are named pages/parquet/LANGUAGE/DAY/….parquet. Run it again: only new days and days that
have changed are written. Without DuckDB, `workspace.sql(…)` queries the tables of the workspace and
returns a Polars data frame.
"""

import sys

import duckdb

from lycosa import Workspace

WORDS_BY_LANGUAGE = """
    SELECT language, count(*) AS pages, sum(len(string_split(main_text, ' '))) AS words
    FROM 'pages/parquet/*/*/*.parquet' GROUP BY language ORDER BY pages DESC, language
"""
MOST_LINKED = """
    SELECT link.target, count(*) AS links
    FROM (SELECT unnest(links) AS link FROM 'pages/parquet/*/*/*.parquet')
    GROUP BY link.target ORDER BY links DESC, link.target LIMIT 5
"""


def main(url: str) -> None:
    """Crawl the site at `url`, export it, and print two tables."""
    workspace = Workspace("analysis")
    workspace.crawl(url)
    exported = workspace.export.library("parquet", "pages")
    print(f"{exported.documents} pages, {exported.files} files")
    for query in (WORDS_BY_LANGUAGE, MOST_LINKED):
        print(duckdb.sql(query))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: parquet_duckdb.py URL")
    main(sys.argv[1])
