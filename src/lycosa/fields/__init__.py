"""Field extraction: items of pages by the selectors of a collection's schemas.

`extraction` reads the items of a page from the tree that the parser built, `values` checks and
converts their values, `views` gives the table of a schema typed columns, `reports` reports bad
values and selectors that select nothing any more, `export` writes items to a file. A crawl takes
part through `plugin`. Nothing here fetches or changes pages.
"""
