"""The Parquet tables: columns, writing, and reading the rows that are valid now.

A later row with the same key supersedes an earlier one. Readers are lazy and see one version of the
log. Nothing here changes the log.
"""
