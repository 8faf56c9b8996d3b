"""From a session to a seed, with rules alone: what was asked, what was done about it, and what of that went well."""
