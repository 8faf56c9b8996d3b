"""What the text form of a template may hold, part by part, with the names that it has there."""

from __future__ import annotations

from typing import Literal

import msgspec

from warmstart.profile.values import TaskType
from warmstart.templates.values import Use


class _Keyed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A part of a seed; `item` is the key by which it is known again."""

    item: str = ""


class ContextForm(_Keyed):
    """A standing instruction."""

    said_by: Literal["system", "user"]
    text: str


class ActForm(msgspec.Struct, forbid_unknown_fields=True):
    """One call of a demonstration."""

    tool: str
    arguments: str
    result: str


class DemonstrationForm(_Keyed):
    """A sub-task that ended well."""

    task: str
    evidence: str
    act: list[ActForm] = []


class ExemplarForm(_Keyed):
    """Arguments that worked."""

    arguments: str


class ConventionForm(_Keyed):
    """What calls of a tool had in common."""

    text: str
    count: int = 1


class FixForm(_Keyed):
    """What was done about an error."""

    error: str
    change: str
    count: int = 1


class CardForm(msgspec.Struct, forbid_unknown_fields=True):
    """What is known of a tool."""

    tool: str
    exemplar: list[ExemplarForm] = []
    convention: list[ConventionForm] = []
    fix: list[FixForm] = []


class RecoveryForm(_Keyed):
    """A mistake that was mended."""

    tool: str
    failed: str
    error: str
    worked: str
    change: str = ""
    count: int = 1


class LineForm(_Keyed):
    """A pattern or a task."""

    text: str


class MarkerForm(_Keyed):
    """A thing that mattered."""

    kind: Literal["file", "url", "reference"]
    value: str
    use: Use
    count: int = 1


class Form(msgspec.Struct, forbid_unknown_fields=True):
    """A template as its text has it."""

    name: str
    description: str = ""
    type: TaskType = "mixed"
    tags: list[str] = []
    context: list[ContextForm] = []
    demonstration: list[DemonstrationForm] = []
    card: list[CardForm] = []
    recovery: list[RecoveryForm] = []
    pattern: list[LineForm] = []
    marker: list[MarkerForm] = []
    task: list[LineForm] = []
