"""When a host may be requested: delays, and clocks per host, domain and address.

`delay` is a pure function of a host's history; `clocks` enforces its results.
"""
