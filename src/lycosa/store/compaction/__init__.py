"""Replace small table files by larger ones, and delete obsolete files.

Compaction changes no fact. Both steps run beside a crawl and may be killed at any time.
"""
