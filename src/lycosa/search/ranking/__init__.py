"""Build the tantivy query of a parsed query, and order what it returns.

docs/explanation/ranking.md has the formula.
"""
