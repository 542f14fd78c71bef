"""Search in other languages with translated or encoded queries."""
