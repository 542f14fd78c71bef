"""Which documents belong to which shard, and which shards form the index."""
