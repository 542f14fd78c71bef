"""Commands that maintain a workspace: index, compact, check, export."""
