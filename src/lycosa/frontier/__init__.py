"""Which URL is fetched next: active hosts, queues, politeness, recrawl dates, traps.

Each URL is returned once, and no request starts before its host's delay is over. Memory is
bounded: hosts without work are parked, and their URLs stay in the tables. Nothing here fetches or
writes tables.
"""
