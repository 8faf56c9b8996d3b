"""Where it is kept: connections, transactions and migrations. Each room owns its own tables."""
