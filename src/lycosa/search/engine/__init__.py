"""The newest index of a workspace, which stays open between searches."""
