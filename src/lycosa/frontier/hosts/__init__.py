"""The directory of all known hosts: 35 bytes per host, in memory-mapped columns."""
