"""Basic types of all packages: records, errors, clock, units, messages.

Nothing here does I/O or depends on settings. `records` defines the rows and values that packages
exchange; `errors` sorts all errors into retry and stop.
"""
