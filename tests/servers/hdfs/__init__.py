"""Hadoop's mini cluster: `from tests.servers.hdfs import hdfs_cluster`."""

from tests.servers.hdfs.cluster import HdfsCluster, State, hdfs_cluster

__all__ = ["HdfsCluster", "State", "hdfs_cluster"]
