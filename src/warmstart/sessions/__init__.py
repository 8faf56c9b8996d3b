"""What happened: sessions as values, the store that keeps them, readers of agents' logs, and sync."""
