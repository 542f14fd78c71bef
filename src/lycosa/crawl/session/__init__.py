"""Composition of one crawl session from configuration and stored state.

`open_session` claims partitions and builds the worker. The other modules read configuration,
seeds, paused collections and stored links.
"""
