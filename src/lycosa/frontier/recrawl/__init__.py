"""When a visited page is fetched again: policies, change rates, daily budgets.

`due` computes the date for every policy; `change_rate` estimates how often a page changes;
`fresh` spends a budget of refetches for the freshest copies.
"""
