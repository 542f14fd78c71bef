"""Parsing of documents in child processes with limits on memory, time and output."""
