"""Has it read before it acts? The prompt block, and what earlier sessions know about the current message."""
