"""Use cases that maintain: check, repair, exclude, export."""
