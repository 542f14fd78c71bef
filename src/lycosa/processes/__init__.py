"""Child processes and threads: start, watch, stop, and their limits.

Used by the cluster, the daemon and searches for a subject. A child tells its parent how it fares
(`children`), ends with it (`parentage`), and keeps its memory small (`memory`). No package here
knows what a child works on.
"""
