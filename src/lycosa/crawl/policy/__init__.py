"""Decisions: whether to fetch, what a response means, when to come back.

`fetch_decision` lists the rules for a request; `outcome.judge` maps an exchange to an outcome;
`host_delay` sets pauses; `page_budgets` and `worker_limits` limit pages.
"""
