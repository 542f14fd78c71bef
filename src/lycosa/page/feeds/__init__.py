"""RSS, Atom, RDF and JSON feeds, and sitemaps.

`feed_entries` and `sitemap` read lists of URLs with dates; `feed` reads a feed as a page with
text. All are bounded, expand no entities, and read up to the first error.
"""
