"""Parsing of HTTP messages: header fields, chunked bodies, content codings.

Every function takes bytes from untrusted servers, is bounded, and never raises on them. Sending
and receiving is `lycosa.fetch`.
"""
