"""Metadata that a page declares: JSON-LD, Open Graph, Twitter cards, microdata, RDFa, bylines.

Everything is collected from the tree that the walk visits, with bounds on depth, size and work.
`record` makes one normalised `lycosa.core.records.Metadata` of it. Never raises on any input.
"""
