"""Language identification, analysis of text in 27 languages, digests.

One analyzer per language, used for indexing and for queries. Pure functions on text.
"""
