"""Complete a query while it is typed, and correct its spelling."""
