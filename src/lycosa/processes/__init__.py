"""Child processes and threads: start, watch, stop, and their limits.

Used by the cluster, the daemon and focused crawls. A child reports to its parent (`children`), ends
with it, and keeps its memory small (`memory`). A job does one task (`jobs`). Calls that only Linux
has are in `platform`.
"""
