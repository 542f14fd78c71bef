"""Several workers: coordinator, leases, page quotas, engines, worker supervision.

Everything here exists only for several workers; a single local worker uses none of it. The
coordinator keeps no durable state: the log and the workers' pings restore it.
"""
