"""Where objects of a cluster run: child processes of this machine, or Ray actors.

`lycosa.cluster.engine` defines the interface; one conformance suite tests both.
"""
