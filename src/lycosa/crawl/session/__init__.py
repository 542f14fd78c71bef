"""Composition of one crawl session, and what a call reads before it starts.

`open_session` claims partitions and builds the worker. The other modules read configuration,
seeds, paused collections and stored links.
"""
