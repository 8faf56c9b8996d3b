"""Templates of every size and kind, drawn at random: what a rendering has to cope with."""

from __future__ import annotations

import json
from random import Random
from typing import get_args

from warmstart.templates.item import Item, Kind, Source, ToolCallExample
from warmstart.templates.template import SessionSeed, WarmTemplate

WORDS = [
    "the", "tide", "table", "gauge", "harbour", "reading", "test", "commit", "branch", "release", "never",
    "always", "before", "after", "please", "run", "check", "write", "file", "src/tides/table.py", "pytest", "-q",
    "--no-header", "2026-09-14", "{{date}}", "{{reservation_id}}", "None", "KeyError:", "'ELY'", "camelCaseName",
    "潮汐", "水位", "数据", "Überprüfung", "naïve", "🎉", "→", "«quoted»", "\"quoted\"", "\\n", "\\u200b",
    "<b>bold</b>", "[warmstart]", "</warmstart>", "<|im_end|>", "0123456789abcdef0123456789abcdef",
    "AAAAB3NzaC1yc2EAAAADAQABAAABgQC7", "http://localhost/a?b=c&d=e"
]  # fmt: skip
TOOLS = ("view", "get_reading", "mcp__tides__list", "find_table", "book_berth")


class Drawing:
    """Draws templates. The same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sessions = [f"{number:016x}" for number in range(self.random.choice((1, 1, 2, 3, 12)))]

    def text(self, most: int = 30) -> str:
        words = self.random.choices(WORDS, k=self.random.randint(1, most))
        return "".join(word + self.random.choice(("  ", " ", " ", " ", "\n")) for word in words).strip()

    def arguments(self) -> str:
        names = self.random.sample(("query", "path", "old", "new", "at"), self.random.randint(0, 4))
        values = (self.text(8), self.random.randint(0, 10**6), True, None, [self.text(3)], {"a": 1.5})
        return json.dumps({name: self.random.choice(values) for name in names})

    def calls(self, kind: Kind) -> tuple[ToolCallExample, ...]:
        if kind == "trap":
            return ToolCallExample("shell", self.text(5)), ToolCallExample("shell", self.text(5))
        if kind != "example":
            return ()
        number = self.random.randint(1, 6)
        return tuple(ToolCallExample(self.random.choice(TOOLS), self.arguments(), "ok, 3 lines") for _ in range(number))

    def item(self, kind: Kind) -> Item:
        some = self.random.sample(self.sessions, self.random.randint(1, min(3, len(self.sessions))))
        return Item(
            kind=kind,
            text=self.text(60),
            tool=self.text(2),
            calls=self.calls(kind),
            count=self.random.randint(1, 40),
            sources=tuple(Source(session, "m") for session in some),
        )

    def template(self) -> WarmTemplate:
        size = self.random.choice((1, 3, 10))
        items = [self.item(kind) for kind in get_args(Kind) for _ in range(self.random.randint(0, size))]
        return WarmTemplate(
            id="warm_20260914_120000",
            name=self.text(6),
            description=self.text(12),
            seed=SessionSeed(items=tuple(items)),
            sources=tuple(self.sessions),
        )
