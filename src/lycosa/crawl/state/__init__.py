"""State of a worker's crawl: URL store, host registry, uncommitted rows.

`CrawlState` composes them. Components report events to each other through `CrawlListener`.
"""
