"""How a full context is handed over: the ledger of what must not be lost."""
