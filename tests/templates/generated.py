"""Templates of every size and kind, drawn at random: what a rendering has to cope with."""

from __future__ import annotations

import json
from random import Random

from warmstart.templates.values import (
    Act,
    Context,
    Convention,
    Demonstration,
    Exemplar,
    Fix,
    Marker,
    Recovery,
    SessionSeed,
    Source,
    Sources,
    ToolCard,
    UserPattern,
    WarmTemplate,
)

WORDS = [
    "the",
    "tide",
    "table",
    "gauge",
    "harbour",
    "reading",
    "test",
    "commit",
    "branch",
    "release",
    "never",
    "always",
    "before",
    "after",
    "please",
    "run",
    "check",
    "write",
    "file",
    "src/tides/table.py",
    "pytest",
    "-q",
    "--no-header",
    "2026-09-14",
    "{{date}}",
    "{{reservation_id}}",
    "None",
    "KeyError:",
    "'ELY'",
    "camelCaseName",
    "潮汐",
    "水位",
    "数据",
    "Überprüfung",
    "naïve",
    "🎉",
    "→",
    "«quoted»",
    '"quoted"',
    "\\n",
    "\\u200b",
    "<b>bold</b>",
    "[warmstart]",
    "</warmstart>",
    "<|im_end|>",
    "0123456789abcdef0123456789abcdef",
    "AAAAB3NzaC1yc2EAAAADAQABAAABgQC7",
    "http://localhost/a?b=c&d=e",
]
TOOLS = ("view", "edit_file", "get_reading", "mcp__tides__list", "apply_patch")


class Drawing:
    """Draws templates. The same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.sessions = [f"{number:016x}" for number in range(self.random.choice((1, 1, 2, 3, 12)))]

    def text(self, most: int = 30) -> str:
        words = self.random.choices(WORDS, k=self.random.randint(1, most))
        return "".join(word + self.random.choice(("  ", " ", " ", " ", "\n")) for word in words).strip()

    def sources(self) -> Sources:
        some = self.random.sample(self.sessions, self.random.randint(1, min(3, len(self.sessions))))
        return tuple(Source(session, "m") for session in some)

    def arguments(self) -> str:
        if self.random.random() < 0.1:
            return self.text(20)  # of a free-form tool
        names = self.random.sample(("query", "path", "old", "new", "at"), self.random.randint(0, 4))
        values = (self.text(8), self.random.randint(0, 10**6), True, None, [self.text(3)], {"a": 1.5})
        return json.dumps({name: self.random.choice(values) for name in names})

    def some(self, most: int) -> range:
        return range(self.random.randint(0, most))

    def card(self, tool: str) -> ToolCard:
        count = self.random.randint(1, 40)
        return ToolCard(
            tool=tool,
            exemplars=tuple(Exemplar(arguments=self.arguments(), sources=self.sources()) for _ in self.some(4)),
            conventions=tuple(Convention(text=self.text(), count=count, sources=self.sources()) for _ in self.some(4)),
            fixes=tuple(
                Fix(error=self.text(), change=self.text(), count=count, sources=self.sources()) for _ in self.some(4)
            ),
        )

    def demonstration(self) -> Demonstration:
        acts = (Act(self.random.choice(TOOLS), self.arguments(), self.text(60)) for _ in range(4))
        acts_taken = tuple(act for act, _ in zip(acts, range(self.random.randint(1, 4)), strict=False))
        return Demonstration(task=self.text(), acts=acts_taken, evidence="tests passed", sources=self.sources())

    def recovery(self) -> Recovery:
        failed, worked = self.arguments(), self.arguments()
        tool = self.random.choice(TOOLS)
        return Recovery(tool=tool, failed=failed, error=self.text(), worked=worked, sources=self.sources())

    def template(self) -> WarmTemplate:
        size = self.random.choice((1, 3, 10))
        seed = SessionSeed(
            contexts=tuple(
                Context(text=self.text(60), said_by=self.random.choice(("user", "system")), sources=self.sources())
                for _ in self.some(size)
            ),
            cards=tuple(self.card(tool) for tool in TOOLS[: self.random.randint(0, len(TOOLS))]),
            demonstrations=tuple(self.demonstration() for _ in self.some(size)),
            recoveries=tuple(self.recovery() for _ in self.some(size)),
            patterns=tuple(UserPattern(text=self.text(), sources=self.sources()) for _ in self.some(size)),
            markers=tuple(
                Marker(kind="file", value=self.text(2), use="changed", count=2, sources=self.sources())
                for _ in self.some(size)
            ),
        )
        return WarmTemplate(
            id="warm_20260914_120000",
            name=self.text(6),
            description=self.text(12),
            seed=seed,
            sources=tuple(self.sessions),
        )
