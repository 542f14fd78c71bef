"""Replace small table files by larger ones, and delete obsolete files.

Compaction changes no live row. Both steps may run during a crawl, and be killed at any time.
"""
