"""Rendering of pages with scripts: which pages, and under which limits."""
