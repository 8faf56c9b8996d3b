"""Test suites for your own stores and backends: ours pass them, and yours should too. Needs pytest."""
