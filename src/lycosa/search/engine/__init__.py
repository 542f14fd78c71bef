"""Open the newest index of a workspace and keep it open."""
