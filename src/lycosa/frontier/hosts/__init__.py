"""The directory of all known hosts: 43 bytes per host, in memory-mapped columns."""
