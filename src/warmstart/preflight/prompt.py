"""The system prompt in tiers, from what never changes to what changes every day, with the preflight block.

Providers cache the prefix of a prompt that stays the same, so the first five tiers are the cached prefix: the same
input gives the same bytes. Volatile parts, such as memories and the date, come last. The block says to read before
acting, and comes before anything about tools. Hooks load this module, so it imports little.
"""

from __future__ import annotations

from warmstart.sessions.marks import END, MARK
from warmstart.tokens import count

TYPE_CHECKING = False  # `typing` itself takes milliseconds to load
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TIERS = ("identity", "preflight", "guidance", "skills", "context", "volatile")

_SHORT = (
    "Before you call a tool, read what you already have: {0}, and this conversation. "
    "If the answer is there, give it. Only then use tools. Go straight to tools for direct commands, "
    "facts that change with time, changes to make, explicit requests to check, and set-up in the first turn. If you "
    "notice that you called a tool first, stop and read."
)
_FULL = (
    "Before you answer or call a tool, in every turn:\n"
    "1. Read what you have: {1}; and this conversation from its start.\n"
    "2. If the answer is there, give it, without a tool: a fact that the user stated, a decision, a preference, a "
    "command that works here, the output of an earlier call. The user's latest message decides.\n"
    "3. Use tools only for what is missing: name it, and call the one tool that gets it. If a skill covers the task, "
    "read the skill first. Check a file or command from an earlier session before you rely on it.\n"
    "4. Exceptions, where you call tools at once: the user gives a direct command (run, open, commit); the answer "
    "changes with time (versions, status, prices, logs); something has to be changed or created; the user asks for the "
    "output of a tool, to check or to look again; set-up in the first turn.\n"
    "5. If you called a tool before you read, stop, read again, and answer from what you have."
)
_BLOCKS = {"short": f"{MARK} {_SHORT}\n{END}", "full": f"{MARK} {_FULL}\n{END}"}
_PERSONAL = ("", "hermes", "openai-agents")  # hosts of agents with an identity, a memory and a user profile
# What an agent can read. A coding agent has no identity and no user profile.
_SOURCES = (
    "your identity, memory, user profile, skills",
    "who you are (above); your memory, the user profile, the index of your skills, the project's instructions and "
    "notes from earlier sessions (below)",
)
_SOURCES_OF_CODING_AGENTS = (
    "the project's instructions, your skills, notes from earlier sessions",
    "the project's instructions, the index of your skills, and the notes from earlier sessions, if there are any",
)


def block(mode: str, host: str = "") -> str:
    """The preflight block, marked as ours: at most 120 tokens if `short`, 400 if `full`; empty if `off`."""
    sources = _SOURCES if host in _PERSONAL else _SOURCES_OF_CODING_AGENTS
    return _BLOCKS.get(mode, "").format(*sources)


class Tier:
    """A part of the prompt: its text, the estimated tokens, and whether it is part of the cached prefix."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text.strip()
        self.tokens = count(self.text)
        self.is_cached = name != TIERS[-1]


class Prompt:
    """A system prompt. Empty tiers are left out."""

    def __init__(
        self,
        *,
        mode: str = "full",
        identity: str = "",
        guidance: str = "",
        skills: Mapping[str, str] | None = None,
        context: Mapping[str, str] | None = None,
        memories: Iterable[str] = (),
        profile: str = "",
        date: str = "",
    ) -> None:
        listed = "\n".join(f"- {name}: {about}" for name, about in sorted((skills or {}).items()))
        files = "\n\n".join(f"# {name}\n\n{text.strip()}" for name, text in (context or {}).items())
        known = "\n".join(f"- {memory}" for memory in memories)
        volatile = (f"Memory:\n{known}" if known else "", profile, f"Date: {date}" if date else "")
        texts = (identity, block(mode), guidance, listed and f"Skills:\n{listed}", files)
        self.tiers = tuple(map(Tier, TIERS, (*texts, "\n\n".join(filter(None, volatile)))))

    @property
    def cached_prefix(self) -> str:
        """What a provider can cache: every tier but the last."""
        return "\n\n".join(tier.text for tier in self.tiers if tier.is_cached and tier.text)

    def render(self) -> str:
        """The whole prompt, starting with the cached prefix."""
        return "\n\n".join(tier.text for tier in self.tiers if tier.text)
