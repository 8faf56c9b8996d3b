"""How did it go? What stored sessions say about tools, errors, recoveries, and whether sessions learn."""
