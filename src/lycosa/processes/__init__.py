"""Child processes and threads: start, watch, stop, and their limits.

Used by the cluster, the daemon and focused crawls. A child reports to its parent (`children`), ends
with it (`parentage`), and keeps its memory small (`memory`).
"""
