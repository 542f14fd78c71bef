"""Search the texts of pages for many patterns at once.

Content alerts (`watch`) and text search (`find`) share the patterns, their storage and their
matches. During a crawl, new and changed pages are matched before their commit.
"""
