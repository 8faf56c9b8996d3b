"""Every start leaves a row: session, template and version, items, why, with which probability, how many tokens.

Sessions that were held out and those for which nothing fitted leave theirs too, because an effect can only be measured
against them. A host names a session by the agent's own id or by ours; a row keeps what was given, and is found by both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from warmstart.storage.sql import placeholders
from warmstart.templates.choosing.values import Choice, Use
from warmstart.templates.store import SQLTemplateStore

_LONGEST = 300  # characters of a task that are kept
_COLUMNS = (
    "id, session, arm, at, project, agent, template, version, task, why, propensity, tokens, items, outcome, errors, "
    "calls, policy"
)
_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_ITEMS = msgspec.json.Decoder(tuple[str, ...]).decode
_POLICY = msgspec.json.Decoder(dict[str, Any]).decode


def record(
    store: SQLTemplateStore,
    choice: Choice,
    *,
    session: str,
    task: str = "",
    project: str = "",
    agent: str = "",
    tokens: int = 0,
    items: Collection[str] = (),
) -> Use:
    """Keep how a session started. One that has a row already keeps that one, which is returned.

    The task is redacted and shortened; `tokens` and `items` are what was injected.
    """
    session = store.name(session)
    template = choice.template
    policy = {**choice.policy._asdict(), "odds": dict(choice.odds)}
    if template is not None:
        policy |= {"template": template.id, "sure": template.sure, "similarity": template.similarity}
    values = (
        session,
        choice.arm,
        store.now().timestamp(),
        store.name(project),
        store.name(agent),
        template.id if template else None,
        template.version if template else None,
        store.words(" ".join(task.split()))[:_LONGEST],
        store.words(choice.why),
        choice.propensity,
        tokens,
        _ENCODE(list(items)).decode(),
        encode_policy(policy),
    )
    with store.database.transaction() as connection:
        if known := started(store, session):
            return known
        (number,) = connection.execute(
            "INSERT INTO template_uses (session, arm, at, project, agent, template, version, task, why, propensity, "
            f"tokens, items, policy) VALUES ({placeholders(values)}) RETURNING id",
            values,
        ).fetchone()
        row = connection.execute(f"SELECT {_COLUMNS} FROM template_uses WHERE id = ?", (number,)).fetchone()
    return _use(row)


def started(store: SQLTemplateStore, session: str) -> Use | None:
    """How a session started, if that is known; for an empty id it never is."""
    return next(iter(uses_of(store, names_of(store, session))), None) if session else None


def names_of(store: SQLTemplateStore, session: str) -> set[str]:
    """What a session may be called in a row: as it is given, by our id and by the agent's own."""
    given = store.name(session)
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            "SELECT id, native_id FROM sessions WHERE id = ?1 OR native_id = ?1 LIMIT 2", (given,)
        ).fetchall()
    return {given, *rows[0]} if len(rows) == 1 else {given}


def uses(store: SQLTemplateStore, *, template: str = "", limit: int = 100) -> list[Use]:
    """The latest rows, of one template if it is named, newest first."""
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            f"SELECT {_COLUMNS} FROM template_uses WHERE (?1 = '' OR template = ?1) ORDER BY id DESC LIMIT ?2",
            (template, limit),
        ).fetchall()
    return [_use(row) for row in rows]


def uses_of(store: SQLTemplateStore, names: Collection[str]) -> list[Use]:
    """The rows of a session by any of these names, oldest first."""
    with store.database.translate_errors():
        rows = store.database.connection.execute(
            f"SELECT {_COLUMNS} FROM template_uses WHERE session IN ({placeholders([*names])}) ORDER BY id", [*names]
        ).fetchall()
    return [_use(row) for row in rows]


def encode_policy(policy: Mapping[str, object]) -> str:
    """What a row says about how it was decided, as JSON."""
    return _ENCODE(policy).decode()


def _use(row: Any) -> Use:
    number, session, arm, at, project, agent, template, version, task, why, propensity, tokens, items, *rest = row
    came_to, errors, calls, policy = rest
    return Use(
        id=number,
        session=session,
        arm=arm,
        at=datetime.fromtimestamp(at, UTC),
        project=project,
        agent=agent,
        template=template or "",
        version=version or 0,
        task=task,
        why=why,
        propensity=propensity,
        tokens=tokens,
        items=_ITEMS(items),
        outcome=came_to,
        errors=errors,
        calls=calls,
        policy=_POLICY(policy),
    )
