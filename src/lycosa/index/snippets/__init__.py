"""The page texts of a generation, from which snippets are cut."""
