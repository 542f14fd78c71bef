"""From bytes to a `Page`: encoding, text, title, language, links, dates, main text.

`parse` is the entry point. It never raises on any bytes, and its time and output are bounded.
Sub-packages: `html`, `feeds` (feeds and sitemaps), `documents` (PDF, Office and others; run in
child processes by `lycosa.crawl.documents`). Nothing here fetches.
"""
