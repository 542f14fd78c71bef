"""What a worker knows of its crawl: URL store, host registry, uncommitted rows.

`CrawlState` composes them. Components tell each other of events through `CrawlListener`.
"""
