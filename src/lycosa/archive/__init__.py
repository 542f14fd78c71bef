"""Archives: WARC, its index CDXJ, and reading other archive formats.

An appended record is in the kernel when `append` returns, so kill -9 loses nothing. A torn end of
a file is ignored. `import_formats` reads archives of other programs as untrusted input.
"""
