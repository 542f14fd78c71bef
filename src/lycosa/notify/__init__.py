"""Deliver notifications by webhook, command or file, at least once.

An outbox stores each notification on disk until its target has accepted it.
"""
