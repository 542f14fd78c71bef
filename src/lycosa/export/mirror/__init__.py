"""Export a site as files that work offline in a browser."""
