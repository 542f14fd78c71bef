"""The archived captures of one URL, their content, and counts of visits."""
