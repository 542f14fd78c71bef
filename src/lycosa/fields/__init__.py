"""Field extraction: items of pages by the selectors of a collection's schemas.

`extraction` reads the items of a page from the tree that the parser built, `values` checks and
converts their values, `views` adds typed columns to the table of a schema, `reports` reports
invalid values and selectors that no longer match, `export` writes items to a file. The crawl calls
`plugin`. Nothing here fetches or changes pages.
"""
