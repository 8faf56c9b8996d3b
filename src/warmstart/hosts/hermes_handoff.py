"""The requests of our context engine in Hermes: compaction, automatic handoff, and packets under `$HERMES_HOME`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.app import Warmstart
from warmstart.config import Settings, load_settings
from warmstart.errors import SessionNotFound, WarmstartError
from warmstart.handoff.compact import compact, latest, measure
from warmstart.handoff.ledger import Ledger
from warmstart.handoff.policy import AutoHandoff, write_artifact
from warmstart.sessions.marks import END, MARK
from warmstart.sessions.values import session_id

_MIN_SAVED = 0.1  # share of the tokens; if we save less, Hermes' own compressor takes over
_ACKNOWLEDGED = {"role": "assistant", "content": f"{MARK} The packet was read. {END}"}  # separates two user messages

Event = Mapping[str, Any]


def compress(data: Event) -> dict[str, Any]:
    """The conversation after a compaction: for each message its old position, or `None`, and the changed fields."""
    with Warmstart(_settings(data)) as app:
        ledger = _import(app, data)
        before: list[dict[str, Any]] = [{**one, "place": place} for place, one in enumerate(data["messages"])]
        size = sum(map(measure, before))
        # The count that Hermes reports includes the system prompt and the tools.
        budget = int(size * min(0.5, data["target"] / max(data["tokens"], 1)))
        options: dict[str, Any] = {"session": ledger.session.id, "ledger": ledger, "redactor": app.redactor}
        done = compact(before, budget_tokens=budget, strategy="hybrid", **options)
        packet = _policy(app, data).before_compression(ledger) if data["rotates"] else None
        messages = done.messages
        if packet:
            leading = [one for one in before if one["role"] == "system"]
            messages = [*leading, *packet.messages, _ACKNOWLEDGED, *latest(before)]
        elif done.report.tokens_after > (1 - _MIN_SAVED) * size:
            return {}
    kept = {id(one) for one in before}
    changes = [
        (one.get("place"), {} if id(one) in kept else {name: one[name] for name in ("role", "content")})
        for one in messages
    ]
    return {"messages": changes, "packet": packet.id if packet else ""}


def compressed(data: Event) -> dict[str, Any]:
    """Count a compression by Hermes, and hand over if it is due. `notice` is for the user."""
    try:
        with Warmstart(_settings(data)) as app:
            ledger = _import(app, data)
            if not data["packet"]:  # otherwise the context is a fresh one
                app.handoffs.compressed(ledger.session.id)
            policy = _policy(app, data)
            parent = session_id("hermes", data["parent"])
            done = policy.linked(parent) if data["packet"] else policy.after_compression(ledger)
    except WarmstartError as error:
        return {"notice": f"Warmstart: {error}"}
    return {"notice": done.message}


def packet(data: Event) -> dict[str, Any]:
    """Write the packet of a session, which continues."""
    try:
        settings = _settings(data)
        with Warmstart(settings) as app:
            saved = app.handoffs.packet_of(_import(app, data), note=data["note"])
            path = write_artifact(Path(data["hermes_home"]), settings, saved)
    except (WarmstartError, OSError) as error:
        return {"text": f"Warmstart: {error}"}
    run = f"`warmstart handoff resume {saved.id} --host hermes --run`"
    return {"text": f"Packet {saved.id} ({saved.tokens:,} tokens) is in {path}. {run} starts a fresh session with it."}


def _settings(data: Event) -> Settings:
    value = data["settings"]
    table = value if isinstance(value, dict) else {} if value is None else {"enabled": value}  # a plain true or false
    return load_settings(os.environ, host={f"auto_handoff_on_compression.{name}": table[name] for name in table})


def _policy(app: Warmstart, data: Event) -> AutoHandoff:
    return AutoHandoff(app.handoffs, app.settings, home=Path(data["hermes_home"]))


def _import(app: Warmstart, data: Event) -> Ledger:
    """The ledger of a session from Hermes' current database; that of its parent if it has no messages yet."""
    app.import_logs([f"{data['hermes_home']}/state.db"], format="hermes")
    try:
        return app.handoffs.ledger(session_id("hermes", data["session_id"]))
    except SessionNotFound:
        return app.handoffs.ledger(session_id("hermes", data.get("parent") or ""))
