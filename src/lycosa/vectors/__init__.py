"""Vectors of chunks, by an encoder that the user names (`[encoder]`), for hybrid search.

`encoders` loads the encoder, `update` encodes new chunks, `store` stores chunks and vectors,
`nearest` finds the chunks nearest to a query. Derived data: everything here can be made
again from the tables and the archive. Nothing excluded stays in it. No model is shipped.
"""
