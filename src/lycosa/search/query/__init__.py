"""Parse a query: words, operators, filters, and its language."""
