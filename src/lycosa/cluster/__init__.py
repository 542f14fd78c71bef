"""Several workers: coordinator, leases, page quotas, engines, worker supervision.

A single local worker uses nothing of this package. The coordinator has no durable state: it is
restored from the log and the workers' pings.
"""
