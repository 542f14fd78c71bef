"""Pages in chunks for language models: splitting Markdown, and ranking chunks as passages.

A chunk has at most as many tokens or characters as its budget, and its identifier depends on its
text only. Nothing is fetched or stored here; `lycosa.export.chunks` writes chunks to files.
"""
