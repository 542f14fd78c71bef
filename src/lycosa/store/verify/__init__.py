"""Check that log, tables and archive are complete and agree with each other.

Checks only read. They return findings; `lycosa.commands.maintenance.repair` acts on them.
"""
