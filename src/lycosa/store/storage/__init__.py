"""Read and write the files of a workspace, wherever they are.

`storage` has the protocol and opens a location. `local`, `object_store` and `hdfs` implement it;
all pass one conformance suite. The only coordination primitive is to create a file if it does not
exist.
"""
