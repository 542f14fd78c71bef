"""Archived captures: cached copies, versions of a page and their differences."""
