"""Build and publish the full-text index of a workspace.

The indexer follows the log and publishes immutable generations, per shard. Excluded pages are
absent. Everything here can be rebuilt from the store; searches are in `lycosa.search`.
"""
