"""Chunks of pages as JSON Lines or Parquet files, incrementally.

Each export writes one file with the chunks that were added, changed and removed since the last one.
The state is in the target folder, so that each folder is complete in itself.
"""
