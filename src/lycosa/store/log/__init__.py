"""The transaction log: numbered entries, snapshots, and the state they describe.

Only a log entry makes data files valid. A claim is the right to write to some partitions; a later
claim fences it. This package decides which files belong to a workspace, not their content.
"""
