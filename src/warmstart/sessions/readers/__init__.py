"""Readers of agents' logs, one file per agent; `registry` has them all."""
