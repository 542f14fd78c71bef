"""Commands that report changes: monitor, watch, changes."""
