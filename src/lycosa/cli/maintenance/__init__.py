"""Commands that keep a workspace: index, compact, check, export."""
