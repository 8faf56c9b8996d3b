"""Readers of agents' logs, one file per agent; `base.readers` has them all."""
