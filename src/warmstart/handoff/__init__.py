"""Compaction and handoff: what a session must not lose when its context is full."""
