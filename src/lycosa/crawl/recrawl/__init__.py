"""Recrawl schedules of a worker's collections: computed in another process, loaded here.

`ranking` computes importance, change rates and thresholds from the tables; `schedule` applies the
result while the crawl goes on. Dates for each policy are in `lycosa.frontier.recrawl`.
"""
