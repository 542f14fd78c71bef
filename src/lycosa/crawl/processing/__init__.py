"""From an exchange to changed rows: archive, parse, admit links, note matches."""
