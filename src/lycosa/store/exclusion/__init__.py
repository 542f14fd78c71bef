"""Remove data permanently: exclusions, and the purge of files.

An excluded URL is invisible from the log entry on. A purge then rewrites the table and WARC files
that contain it. It never removes records that are still referenced.
"""
