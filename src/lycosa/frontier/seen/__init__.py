"""The set of known URLs of a collection: 8 bytes per URL, in a file."""
