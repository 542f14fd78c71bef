"""Build the tantivy query of a parsed query, and order what it returns.

docs/ranking.md has the formula.
"""
