"""Thin adapters to the agents that people use, and what `warmstart install` writes for them.

A hook starts a process on every turn, so this module imports nothing; neither does an adapter when it is loaded.
"""
