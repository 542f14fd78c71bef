"""Active hosts and the order of their URLs.

`frontier` returns the next URL; `parked_hosts` activates hosts that are due and parks hosts
without work; `heads` refills in-memory queue heads from the tables; `strategy` orders first
visits.
"""
