"""Detection of crawler traps: URL patterns that yield no new content."""
