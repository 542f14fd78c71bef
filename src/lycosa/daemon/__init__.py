"""`lycosa run`: starts and supervises workers, indexer, searches for a subject, metrics.

The daemon neither fetches nor parses: it starts processes that do, restarts them, and follows
changed settings.
"""
