"""Turn ranked pages into an answer: snippets, facets, records."""
