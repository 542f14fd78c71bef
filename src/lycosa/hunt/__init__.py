"""Focused crawl: follow the most relevant links for a question, and stream results.

A hunt scores pages and links, and selects the next URL of each host. Fetching, politeness and
storage are those of any crawl.
"""
