"""MCP server (Model Context Protocol): a workspace as tools and resources for language models.

It composes use cases of `lycosa.commands`, over standard input and output or over HTTP. It reads;
tools that fetch or write exist only if the operator allows them. Every result is marked as
untrusted content. It never lets a client name a private address, a file, or a setting.

Needs the extra `lycosa[mcp]`. The rest of Lycosa works without this package.
"""
