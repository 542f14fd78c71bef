"""Collect and store the phrases and words for completion and spelling."""
