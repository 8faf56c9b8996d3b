"""Automatic handoff: after several compressions, a limited number of times, and only if there was progress.

`prompt_user` writes the packet and tells the user. `fresh_session` first creates the child session; only then is the
packet's file written and the context replaced. If anything fails, the compacted session continues and nothing counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from warmstart.config import Settings
from warmstart.errors import ConfigError, HandoffRefused, WarmstartError
from warmstart.handoff.ledger import Ledger
from warmstart.handoff.packet import Packet
from warmstart.handoff.store import Compressions, Handoffs
from warmstart.log import log_error
from warmstart.sessions.values import Session
from warmstart.storage.files import write_private


class HandoffResult(NamedTuple):
    """The outcome of a compression: nothing, a packet that the user was told about, or a fresh session."""

    action: Literal["none", "prompt_user", "fresh_session"] = "none"
    reason: str = ""
    packet: Packet | None = None
    child: Session | None = None
    path: Path | None = None

    @property
    def message(self) -> str:
        """The message for the user; empty if there is none."""
        if self.action == "none" or not self.packet:
            return ""
        where = f" It is in {self.path}." if self.path else ""
        if self.child:
            return f"This session continues in {self.child.id} with packet {self.packet.id}.{where}"
        return (
            "This session has been compressed several times; a fresh one may do better. "
            f"Packet {self.packet.id} has what it needs.{where} `warmstart handoff resume {self.packet.id}` prints it."
        )


class AutoHandoff:
    """Bounded automatic handoff of a live session. Packets are written under `home`."""

    def __init__(self, handoffs: Handoffs, settings: Settings, *, home: Path | None = None) -> None:
        self._handoffs = handoffs
        self._settings = settings
        self._home = home or settings.home

    def after_compression(self, ledger: Ledger, *, child_id: str | None = None) -> HandoffResult:
        """Count a compression of the ledger's session, and hand over if it is time.

        `child_id` is the agent's id for the fresh session. Without it there can be none: in the mode `fresh_session`
        this is then an ordinary compression, without a packet.
        """
        if not self._settings.handoff_enabled:
            return HandoffResult(reason="disabled")
        return self._guard(lambda: self._hand_over(ledger, child_id))

    def before_compression(self, ledger: Ledger) -> Packet | None:
        """The packet for the fresh session that the agent itself creates at this compression; `None` if none is due.

        Call `linked` when the agent has created the session, to complete the handoff.
        """
        if not self._settings.handoff_enabled or self._settings.handoff_mode != "fresh_session":
            return None
        return self._guard(lambda: self._prepare(ledger)).packet

    def linked(self, parent_id: str) -> HandoffResult:
        """Complete the handoff to a session that the agent created and that was imported."""
        return self._guard(lambda: self._link(parent_id))

    def _guard(self, do: Callable[[], HandoffResult]) -> HandoffResult:
        try:
            return do()
        except (WarmstartError, OSError) as error:
            self._log(error)
            return HandoffResult(reason=str(error))

    def _log(self, error: Exception) -> None:
        log_error(self._settings.home, "handoff", error, redact=self._handoffs.redactor.clean)

    def _why_not(self, ledger: Ledger, past: Compressions) -> str:
        settings = self._settings
        artifact_directory(self._home, settings.handoff_dir)  # raises before anything is written
        if past.times < settings.handoff_after:
            return f"compression {past.times} of {settings.handoff_after}"
        made = self._handoffs.automatic(ledger.session.id)
        if len(made) + past.prompts >= settings.handoff_max:
            return f"{len(made) + past.prompts} of {settings.handoff_max} handoffs used"
        if ledger.digest() in (past.ledger, made and made[-1].ledger):
            return "nothing has changed since the last handoff"
        return ""

    def _prepare(self, ledger: Ledger) -> HandoffResult:
        past = self._handoffs.compressions(ledger.session.id)
        reason = self._why_not(ledger, past._replace(times=past.times + 1))
        return HandoffResult(reason=reason, packet=None if reason else self._handoffs.packet_of(ledger))

    def _hand_over(self, ledger: Ledger, child_id: str | None) -> HandoffResult:
        handoffs, session = self._handoffs, ledger.session
        if reason := self._why_not(ledger, handoffs.compressions(session.id, new=1)):
            return HandoffResult(reason=reason)
        is_fresh = self._settings.handoff_mode == "fresh_session"
        if is_fresh and child_id is None:
            return HandoffResult(reason="this host cannot start a fresh session; the compacted one continues")
        packet = handoffs.packet_of(ledger)
        if not is_fresh:
            path = write_artifact(self._home, self._settings, packet)
            handoffs.prompted(session.id, ledger.digest())
            return HandoffResult("prompt_user", "", packet, None, path)
        child = handoffs.hand_over(ledger, packet, replace(session, native_id=str(child_id), stored_id="", title=""))
        return self._finish(packet, child)

    def _link(self, parent_id: str) -> HandoffResult:
        self._handoffs.link_sessions()
        made = self._handoffs.handoff(parent_id)
        if not made:
            raise HandoffRefused(f"no session was found that continues {parent_id!r}")
        return self._finish(self._handoffs.find(made.packet), self._handoffs.store.get(made.child))

    def _finish(self, packet: Packet, child: Session) -> HandoffResult:
        path = None
        try:
            path = write_artifact(self._home, self._settings, packet)
        except OSError as error:  # the child has the packet; the file is a copy
            self._log(error)
        return HandoffResult("fresh_session", "", packet, child, path)


def artifact_directory(home: Path, name: str) -> Path:
    """The folder for packets under the home. Raises `ConfigError` if the name escapes it."""
    parts = PurePath(name.replace("\\", "/"))
    setting = "auto_handoff_on_compression.handoff_artifact_dir"
    if not name.strip() or parts.is_absolute() or ".." in parts.parts or name.startswith("~"):
        raise ConfigError(f"the setting {setting!r} is {name!r}; give a folder inside {str(home)!r}")
    folder = home / parts
    if not folder.resolve().is_relative_to(home.resolve()):
        raise ConfigError(f"the setting {setting!r} is {name!r}, which links out of {str(home)!r}; remove the link")
    return folder


def write_artifact(home: Path, settings: Settings, packet: Packet) -> Path:
    """Write a packet to the folder for packets under the home."""
    folder = artifact_directory(home, settings.handoff_dir)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{packet.session_id}-{packet.id}.md"
    write_private(path, [packet.text])
    return path
