"""The web server: search pages, JSON API, feeds, metrics.

Page text is never markup, archived pages run no script, and nothing changes without a token. All
pages work without JavaScript.
"""
