"""Search: pages, JSON API, feeds, suggestions, and the API for peers."""
