"""URLs: normalisation, keys, registrable domains, scopes, rules, exclusion lists.

Pure functions. Normalising never changes what a URL means, is idempotent, and never raises on a
link. Which URLs a crawl takes is decided in `lycosa.crawl.admission` with what is defined here.
"""
