"""Where data is kept: connections, transactions and migrations. Each package owns its own tables."""
