"""Where data is stored: connections, transactions and migrations. Each package owns its tables."""
