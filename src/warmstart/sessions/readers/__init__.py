"""Readers of agents' logs, one file an agent; `registry` has them all."""
