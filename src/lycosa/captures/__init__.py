"""Show the archived captures of one URL, and what was fetched when."""
