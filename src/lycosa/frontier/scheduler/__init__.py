"""Active hosts and the order of their URLs.

`frontier` returns the next URL of the `active_hosts`, in the order of `host_schedule`. `scheduler`
decides which of the `parked_hosts` become active; `heads` refills the in-memory queue heads from
the tables; `agenda` returns when a URL is due; `strategy` orders first visits.
"""
