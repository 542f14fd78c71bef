"""URLs: normalisation, keys, registrable domains, scopes, rules, exclusion lists.

Pure functions. Normalising never changes the meaning of a URL, is idempotent, and never raises on a
link. `lycosa.crawl.admission` decides which URLs a crawl accepts.
"""
