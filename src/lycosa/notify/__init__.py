"""Deliver notifications by webhook, command or file, at least once.

An outbox keeps each notification until its target has accepted it, over every crash.
"""
