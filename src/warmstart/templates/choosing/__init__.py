"""Which template a session starts from, whether it starts cold, and what came of it."""
