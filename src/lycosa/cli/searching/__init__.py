"""Commands that query stored pages: search, find, terms, sql, serve."""
