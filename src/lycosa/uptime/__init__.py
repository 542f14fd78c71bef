"""Monitor the availability of URLs: checks, outages, reports.

Checks obey the politeness of the crawl and are archived before they are evaluated. Deciding about
outages is pure: it gets results and times, and returns events.
"""
