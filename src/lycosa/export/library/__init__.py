"""Export pages by language and day as XML, JSON Lines, Parquet or text."""
