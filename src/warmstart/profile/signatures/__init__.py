"""Error signatures: the same mistake counts as the same, whatever the paths, numbers and names in its text."""
