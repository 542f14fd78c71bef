"""Use cases: one module for each command, called by CLI, API and pages.

They compose the packages below. Nothing here parses options or prints.
"""
