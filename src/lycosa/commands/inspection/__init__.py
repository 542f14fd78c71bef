"""Use cases that read: status, explain, hosts, terms."""
