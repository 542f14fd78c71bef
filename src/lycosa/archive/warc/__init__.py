"""Writing and reading our own WARC 1.1 files, record by record.

`writer` appends request, response and metadata of an exchange in one write; `reader` reads them
back, also from a file that a crash has cut.
"""
