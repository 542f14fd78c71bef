"""Reading the rows of a host from the sorted files of a table."""
