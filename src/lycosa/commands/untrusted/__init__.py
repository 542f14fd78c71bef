"""Use cases whose input comes from untrusted programs, such as agents: with limits."""
