"""What every package uses: records, errors, clock, units, translatable messages.

Nothing here does I/O or knows settings. `records` defines the rows and values that packages
exchange; `errors` sorts everything that can go wrong into retry and stop.
"""
