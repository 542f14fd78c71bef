"""Derive facts from the links between pages: ranks, link texts, duplicates.

Each run reads the tables and publishes one immutable generation, completely or not at all. It never
changes a table.
"""
