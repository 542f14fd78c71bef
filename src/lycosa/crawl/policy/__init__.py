"""Decisions: whether to fetch, outcomes of responses, pauses of hosts.

`fetch_decision` lists the rules for a request; `outcome.judge` maps an exchange to an outcome;
`host_delay` sets pauses; `page_budgets` and `worker_limits` limit pages.
"""
