"""Translate words and terms: dictionaries, and tables learned from parallel texts.

Sources are dictionaries, aligned texts, and pages of the crawl that are translations of each other.
This package never searches; `lycosa.search.crosslingual` uses the tables.
"""
