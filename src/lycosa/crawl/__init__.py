"""One worker's crawl: admission, policy, processing, commits, recovery.

`worker` is the loop; its `dispatcher` sends the requests that `policy.fetch_decision` allows and
passes responses to `processing`. `session` composes a crawl from a claim to its release. Every
exchange is archived before it is processed, and every URL is in exactly one state. Features are
called through `hooks`. This package does not depend on the cluster, the search index or the command
line.
"""
