"""Build the tantivy query of a parsed query, and order its results.

docs/explanation/ranking.md has the formula.
"""
