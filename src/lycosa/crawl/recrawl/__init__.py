"""Recrawl schedules of a worker's collections: computed in another process, loaded here.

`compute_schedule` computes importance, change rates and thresholds from the tables; `schedule`
applies the result during the crawl. Dates for each policy are in `lycosa.frontier.recrawl`.
"""
