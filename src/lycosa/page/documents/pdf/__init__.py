"""Reader of PDF files: lines from characters, then tables and structure from lines."""
