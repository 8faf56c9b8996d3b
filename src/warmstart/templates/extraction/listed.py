"""Closed sets of words, written as one string so that a long list stays readable."""

from __future__ import annotations


def listed(words: str) -> frozenset[str]:
    """The words between the spaces."""
    return frozenset(words.split())
