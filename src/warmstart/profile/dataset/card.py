"""The data card of a dataset: what it is, what its columns mean, how it was made, and what not to read into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from warmstart.profile.dataset.rows import CALL_COLUMNS, SESSION_COLUMNS, Column, Row

MARK = "<!-- A data card by `warmstart dataset export`, which writes it anew. Take out this line to keep your own. -->"


@dataclass(slots=True)
class Tally:
    """What a card tells of the rows, counted while they are written."""

    agents: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    first_week: str = ""
    last_week: str = ""

    @property
    def sessions(self) -> int:
        return self.agents.total()

    @property
    def calls(self) -> int:
        return self.outcomes.total()

    def add_session(self, row: Row) -> None:
        """Count the row of a session."""
        self.agents[str(row["agent"])] += 1
        if week := str(row["week"]):
            self.first_week = min(self.first_week or week, week)
            self.last_week = max(self.last_week, week)

    def add_call(self, row: Row) -> None:
        """Count the row of a call."""
        self.outcomes[str(row["outcome"])] += 1


def card(tally: Tally, *, made: datetime, parquet: bool, error_text: bool = False) -> str:
    """The card as Markdown. Its head lets Hugging Face show both tables; the licence is for the publisher to add."""
    return _TEXT.format(
        mark=MARK,
        counts=_counts(tally),
        made=made.date().isoformat(),
        also=", and the same rows as Parquet" if parquet else "",
        sessions=_table(SESSION_COLUMNS),
        calls=_table(CALL_COLUMNS),
        parquet=_PARQUET if parquet else "",
        wording=_MESSAGES if error_text else _HASHED,
        privacy=_MESSAGES_PRIVACY if error_text else _HASHED_PRIVACY,
        limit=_MESSAGES_LIMIT if error_text else _HASHED_LIMIT,
        text=_SOME_TEXT if error_text else _NO_TEXT,
    )


def _counts(tally: Tally) -> str:
    text = f"{tally.sessions:,} sessions with {tally.calls:,} tool calls"
    if tally.agents:
        text += f", of {', '.join(f'{agent} ({count:,})' for agent, count in sorted(tally.agents.items()))}"
    if tally.first_week:
        text += f", begun from week {tally.first_week} to {tally.last_week}"
    if tally.outcomes:
        text += f". Calls: {', '.join(f'{count:,} {outcome}' for outcome, count in sorted(tally.outcomes.items()))}"
    return f"{text}."


def _table(columns: Sequence[Column]) -> str:
    rows = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in columns]
    return "\n".join(["| column | type | meaning |", "| --- | --- | --- |", *rows])


_PARQUET = """
```python
import pyarrow.parquet as parquet

calls = parquet.read_table("calls.parquet")  # calls.to_pandas() for pandas
print(calls.num_rows)
```
"""

_NO_TEXT = "There is no text of any message in it."
_SOME_TEXT = "Of the text of messages there is none but lines of error messages."
_HASHED = """\
`signature` says which error it is. Where a rule of Warmstart's knows the error, it is the rule's own wording, the same
for everybody (`tests failed`, `lint: errcheck`, `grep: exit 1, no output`). Every other error is `other:` with a
keyed hash, after the class of the exception or the error code if it has one (`ValueError other:1a2b3c4d`): the same
message has the same hash. It was exported without error text."""
_MESSAGES = """\
`signature` says which error it is. Where a rule of Warmstart's knows the error, it is the rule's own wording, the same
for everybody (`tests failed`, `lint: errcheck`, `grep: exit 1, no output`). Of every other error it is the telling
line of the message, with paths, numbers, ids and quotes replaced. It was exported with error text
(`--with-error-text`)."""
_HASHED_PRIVACY = """\
Programs that are not well known are `‹program›` in signatures. In names of tools, secrets, e-mail addresses and phone
numbers were replaced, and names of users and projects, as far as the paths of projects tell them, became `<user>` and
`<project>`."""
_MESSAGES_PRIVACY = """\
In signatures and in names of tools, secrets, e-mail addresses, phone numbers and user names in paths were replaced, and
names of users and projects, as far as the paths of projects tell them, became `<user>` and `<project>`."""
_HASHED_LIMIT = """\
- Classes of exceptions and rules of linters keep their names, also those that somebody wrote for themselves, unless a
  name from the path of a project is in them."""
_MESSAGES_LIMIT = """\
- A signature may be made of words of an error message. Names that do not stand in the path of a project may be among
  them: read the signatures before you publish."""

_TEXT = """---
pretty_name: Markers of agent sessions
configs:
- config_name: sessions
  data_files: sessions.jsonl
- config_name: calls
  data_files: calls.jsonl
---
{mark}

# Markers of agent sessions

How sessions of LLM agents went: one row a session with what may tell a proficient session from another, and one row a
tool call with its outcome and, where it failed, the signature of the error. {text}

{counts}

Licence: for the publisher to state here.

## Load it

`sessions.jsonl` and `calls.jsonl` have one JSON object a line{also}. `session` joins the two.

```python
import json

with open("sessions.jsonl", encoding="utf-8") as file:
    sessions = [json.loads(line) for line in file]
rates = [row["errors"] / row["calls"] for row in sessions if row["calls"]]
print(f"{{len(sessions)}} sessions, {{len(rates)}} of them with calls")
```
{parquet}
## Columns

A text that is not known is empty, a number that is not known is null.

`sessions`:

{sessions}

`calls`:

{calls}

## How it was made

Warmstart (`warmstart dataset export`) made it on {made} from the agents' own logs, by rules alone: no model read or
labelled anything. The outcome of a call is what its agent's log says of it:

- `ok`: the tool did what it was asked to;
- `error`: the tool failed, by the log's flag, the exit code or the form of the result;
- `rejected`: a person said no, which is no failure of the tool;
- `unknown`: the log has no result, or one that tells neither.

The outcome of a session is `unknown` unless something other than the agent's own word speaks for it, which
`outcome_source` names.

{wording}

## What was left out

Messages, reasoning, arguments and results of calls, titles, branches, file names, the evidence for an outcome, the
wording of instructions, and the date: of the start only the week is kept. Times within a session are kept, but rounded,
since exact ones would tell a session from all others: how long a call took to tenths of a second, all else to seconds.
Sessions, projects, the names of MCP servers and of models that no vendor gave are keyed hashes: the same name has the
same hash throughout, and without the publisher's key no guess can be checked. {privacy} What stood in the place of a
tool's name and is none is `<other>`.

## Known limits

{limit}
- Tools keep their names, also those that somebody wrote for themselves. Only names that begin with `mcp_` are known to
  hold that of a server.
- Calls of one session are not independent. Take the session as the unit, or cluster by it; calls taken one by one make
  intervals far too narrow.
- Error rates by length of session mislead: a session that goes badly is left early, so short ones look worse whether
  or not anybody learns. Compare the first calls of all sessions, or calls within one.
- Outcomes are inferred, of sessions more so than of calls, and agents differ in what their logs tell: compare agents
  with care.
- It is what its publisher's agents did, not a sample of anything larger.
"""
