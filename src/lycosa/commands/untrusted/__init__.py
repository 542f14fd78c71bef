"""Use cases with limits, for input from untrusted programs such as agents."""
