"""Thin adapters for the agents that people use, and the files that `warmstart install` writes for them.

A hook starts a process on every turn, so this module imports nothing, and adapters import nothing heavy when loaded.
"""
