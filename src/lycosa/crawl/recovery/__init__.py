"""After a crash, an import or a changed parser: process archived exchanges again.

`resume` loads the committed state, `replay` processes exchanges of uncommitted WARC files,
`reparse` parses archived pages again, `import_archives` imports archives of other programs.
"""
