"""When a session is handed over by itself: after so many compressions, only so often, only if there was progress.

`prompt_user` writes the packet and tells the user. `fresh_session` creates the child session first; only when that has
succeeded is the packet's file written and the context replaced. Whatever fails leaves an ordinary compacted session,
nothing counted, and one line in the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from warmstart.config import Settings
from warmstart.errors import ConfigError, HandoffRefused, WarmstartError
from warmstart.handoff.ledger import Ledger
from warmstart.handoff.packet import Packet
from warmstart.handoff.store import Handoffs
from warmstart.log import log_error
from warmstart.sessions.values import Session
from warmstart.storage.files import write_private


class HandoffResult(NamedTuple):
    """What came of a compression: nothing more, a packet that the user was told of, or a fresh session."""

    action: Literal["none", "prompt_user", "fresh_session"] = "none"
    reason: str = ""
    packet: Packet | None = None
    child: Session | None = None
    path: Path | None = None

    @property
    def message(self) -> str:
        """What to tell the user; empty if there is nothing to tell."""
        if self.action == "none" or not self.packet:
            return ""
        where = f" It is in {self.path}." if self.path else ""
        if self.action == "fresh_session" and self.child:
            return f"This session was handed over to {self.child.id} with packet {self.packet.id}.{where}"
        return (
            f"This session was compressed often; a fresh one may do better. Packet {self.packet.id} has what it needs."
            f"{where} `warmstart handoff resume {self.packet.id}` prints it."
        )


class AutoHandoff:
    """The bounded handoff of one live session. `home` is the active home, under which packets are written."""

    def __init__(self, handoffs: Handoffs, settings: Settings, *, home: Path | None = None) -> None:
        self._handoffs = handoffs
        self._settings = settings
        self._home = home or settings.home
        self._compacting = False

    @contextmanager
    def compacting(self) -> Iterator[None]:
        """While a context is compacted, nothing is handed over."""
        self._compacting = True
        try:
            yield
        finally:
            self._compacting = False

    def after_compression(self, ledger: Ledger, *, child_id: str | None = None) -> HandoffResult:
        """Count a compression of the ledger's session, and hand over if it is time.

        `child_id` is the agent's own id of the fresh session; without one there can be none, and the session goes on.
        """
        settings = self._settings
        if not settings.handoff_enabled:
            return HandoffResult(reason="disabled")
        try:
            if self._compacting:
                raise HandoffRefused("a compaction is under way")
            return self._hand_over(ledger, child_id)
        except (WarmstartError, OSError) as error:
            log_error(settings.home, "handoff", error, redact=self._handoffs.redactor.clean)
            return HandoffResult(reason=str(error))

    def _hand_over(self, ledger: Ledger, child_id: str | None) -> HandoffResult:
        settings, handoffs, session = self._settings, self._handoffs, ledger.session
        folder = artifact_directory(self._home, settings.handoff_dir)
        times, prompts, before = handoffs.compressed(session.id)
        if times < settings.handoff_after:
            return HandoffResult(reason=f"compression {times} of {settings.handoff_after}")
        done = len(handoffs.ancestors(session.id)) - 1
        if done + prompts >= settings.handoff_max:
            return HandoffResult(reason=f"{done + prompts} of {settings.handoff_max} handoffs were made")
        parent = handoffs.handoff(handoffs.ancestors(session.id)[-2].id) if done else None
        if ledger.digest() in (before, parent and parent[2]):
            return HandoffResult(reason="nothing has changed since the last handoff")
        packet = handoffs.packet_of(ledger)
        if settings.handoff_mode == "prompt_user":
            path = _write(folder, session, packet)
            handoffs.prompted(session.id, ledger.digest())
            return HandoffResult("prompt_user", "", packet, None, path)
        if child_id is None:
            raise HandoffRefused("this host cannot start a fresh session; the compacted one goes on")
        child = handoffs.hand_over(ledger, packet, replace(session, native_id=child_id, stored_id="", title=""))
        try:
            return HandoffResult("fresh_session", "", packet, child, _write(folder, session, packet))
        except OSError as error:  # the child has the packet; the file is a copy
            log_error(settings.home, "handoff artifact", error, redact=self._handoffs.redactor.clean)
            return HandoffResult("fresh_session", "", packet, child)


def artifact_directory(home: Path, name: str) -> Path:
    """The folder for packets under the home. Raises `ConfigError` if the name leads out of it."""
    parts = PurePath(name.replace("\\", "/"))
    setting = "auto_handoff_on_compression.handoff_artifact_dir"
    if not name.strip() or parts.is_absolute() or ".." in parts.parts or name.startswith("~"):
        raise ConfigError(f"the setting {setting!r} is {name!r}; give a folder inside {str(home)!r}")
    folder = home / parts
    if not folder.resolve().is_relative_to(home.resolve()):
        raise ConfigError(f"the setting {setting!r} is {name!r}, which links out of {str(home)!r}; remove the link")
    return folder


def _write(folder: Path, session: Session, packet: Packet) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{session.id}-{packet.id}.md"
    write_private(path, [packet.text])
    return path
