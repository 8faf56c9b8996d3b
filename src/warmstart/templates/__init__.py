"""What is worth carrying: templates made of sessions that went well, and new sessions that start from them."""
