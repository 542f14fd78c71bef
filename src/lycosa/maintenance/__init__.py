"""Keep a workspace small, ranked and indexed: jobs that may run on an engine.

`jobs` runs compaction, vacuum, indexing and ranking as functions over items. `upkeep` starts them
during a crawl. Every job may be killed at any time.
"""
