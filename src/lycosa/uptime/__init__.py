"""Monitor the availability of URLs: checks, outages, notifications, reports.

Checks obey the politeness of the crawl and are archived before they are evaluated. `results` and
`outages` are pure: they get results and times, and return events.
"""
