"""Store workspaces: data files, tables, and the log that makes them valid.

A workspace is a directory, or a prefix on S3 or HDFS (`storage`). Workers write immutable files and
create one log entry that names them (`log`). Readers see exactly the files of the log (`tables`).
`compaction` replaces small files, `exclusion` removes data permanently, `verify` checks a
workspace. This package never fetches, parses or indexes.
"""
