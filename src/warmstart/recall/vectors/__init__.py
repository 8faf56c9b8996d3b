"""Search by meaning: vectors of what was said, beside the index of words."""
