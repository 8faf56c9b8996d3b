"""Thin adapters for the agents that people use."""
