"""Fetching: libcurl over HTTP/1.1 and HTTP/2, FTP, gopher, robots.txt, Chromium.

Every result is an `Exchange`: exact bytes, times, address, and an error from a closed vocabulary.
The address guard refuses private addresses that the operator did not name, when the connection is
made. When to fetch is not decided here.
"""
