"""Report on one site: broken links, redirects, duplicates, changes, HTML errors.

Reports only read the tables and the archive. URLs that were not fetched are never reported as
broken.
"""
