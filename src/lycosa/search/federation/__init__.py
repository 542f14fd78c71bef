"""Combine the answers of shards, workspaces and peers into one."""
