"""Search for the exact places of a text, in stored pages or on a site."""
