"""Keep an OpenSearch or Quickwit index up to date with a workspace."""
