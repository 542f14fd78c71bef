"""The settings: one typed schema, and reading it from TOML, environment and command line.

`settings` is the schema; its descriptions are the documentation (`scripts/make_docs.py`). An
unknown or invalid setting is an error that names file, line and key. Nothing here acts on a
setting.
"""
