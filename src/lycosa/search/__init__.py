"""Answer queries: parse them, retrieve and rank pages, present the results.

`query` parses the text of a user, `ranking` scores, `presentation` makes snippets and facets,
`engine` opens the index, `federation` combines shards, workspaces and peers. Every input returns a
result or a remark. This package never writes to a workspace.
"""
