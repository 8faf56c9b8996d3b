"""Reads the database of Hermes Agent."""

from __future__ import annotations

from warmstart.sessions.readers.hermes.reader import HermesReader as HermesReader
