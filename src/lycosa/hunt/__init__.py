"""Focused crawl: follow the most relevant links for a question, and stream results.

A hunt scores pages and links, and selects the next URL of each host. Fetching, politeness and
storage are those of any crawl.

- `relevance`: scores of pages and links for a question
- `links`: links of a page with their context, and the queue of a hunt
- `strategies`: Fish search, Shark search, and a best-first search that learns
- `hunt`: one hunt, and the URLs of it that a crawl session fetches
- `session`: a hunt as a crawl session
- `requests`: hunts in other processes, for the daemon and the server
"""
