"""Inspect AI: every sample of an evaluation, in each epoch, is a session, and its score is the outcome.

- A log is one JSON document, or a zip archive (`.eval`) with a header and a member for each sample. Members are
  compressed with Zstandard, which `zipfile` supports from Python 3.14 on; older versions need a package that comes with
  Inspect.
- Messages have neither timestamps nor usage: both are in the events. A model event names its message in its output, a
  tool event names its call.
- Long texts are in `attachments`; the message has `attachment://` with their hash instead.
- An evaluation whose metadata has a `project` belongs to that folder.
- A user message whose source is not the input was written by an agent's scaffold, not by a person.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from warmstart.errors import LogError
from warmstart.sessions.marks import is_ours
from warmstart.sessions.readers.base import Pair
from warmstart.sessions.readers.content import joined
from warmstart.sessions.readers.fields import Fields, as_dict, as_int, as_list, as_str, usage_of
from warmstart.sessions.readers.openai import Chats, OpenAIReader
from warmstart.sessions.readers.transcript import OBJECT, decode
from warmstart.sessions.values import Message, Session, SessionOutcome

_ATTACHMENT = "attachment://"
_GRADES = {"c": 1.0, "i": 0.0, "p": 0.5, "n": 0.0}  # correct, incorrect, partial, no answer
_COUNTS = ("input_tokens", "output_tokens", "input_tokens_cache_read", "input_tokens_cache_write", "reasoning_tokens")


def score_value(value: object) -> float | None:
    """A score as a number: Inspect's grades, booleans and numbers; `None` for anything else."""
    if isinstance(value, str):
        with suppress(ValueError):
            return _GRADES[value.lower()] if value.lower() in _GRADES else float(value)
        return None
    return float(value) if isinstance(value, int | float) else None


class _Evaluation(Chats):
    """One log. Its messages are converted to OpenAI's format first."""

    agent = "inspect"

    def pairs(self) -> Iterator[Pair]:
        return self.archive_pairs() if self.path.suffix == ".eval" else self.document_pairs()

    def archive_pairs(self) -> Iterator[Pair]:
        self.reading.offset = self.reading.line = 0
        with suppress(ImportError):
            import zipfile_zstd  # noqa: F401 - adds Zstandard to `zipfile`
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = archive.namelist()
                head = "header.json" if "header.json" in names else "_journal/start.json"
                header = decode(archive.read(head), OBJECT)
                for number, name in enumerate(name for name in names if name.startswith("samples/")):
                    yield from self.take_sample(header, decode(archive.read(name), OBJECT), number)
        except NotImplementedError as error:
            raise LogError(f"{str(self.path)!r} is compressed: pip install 'warmstart[experiments]'") from error
        except (zipfile.BadZipFile, KeyError, msgspec.MsgspecError) as error:
            self.reading.report(1, error)  # it is damaged, or still being written
        else:
            self.reading.offset = self.path.stat().st_size

    def take_document(self, document: Any) -> Iterator[Pair]:
        for number, sample in enumerate(as_list(document.get("samples"))):
            yield from self.take_sample(document, as_dict(sample), number)

    def take_sample(self, header: Fields, sample: Fields, number: int) -> Iterator[Pair]:
        about = as_dict(header.get("eval"))
        name = f"{as_str(about.get('task'))}/{sample.get('id', number)}"
        own = as_str(sample.get("uuid")) or f"{as_str(about.get('eval_id'))}:{name}:{sample.get('epoch', 1)}"
        events = [as_dict(event) for event in as_list(sample.get("events"))]
        facts = {**_message_facts(events), "attachments": as_dict(sample.get("attachments"))}
        items = [as_dict(item) for item in as_list(sample.get("messages"))]
        found = (self.sample_message(item, f"{own}#{place}", facts) for place, item in enumerate(items))
        messages = [message for message in found if message]
        about_session = {
            "id": own,
            "cwd": as_dict(about.get("metadata")).get("project"),
            "model": about.get("model"),
            "title": name,
            "version": as_dict(about.get("packages")).get("inspect_ai"),
            "started": sample.get("started_at") or about.get("created"),
            "ended": sample.get("completed_at"),
        }
        session = _with_outcome(self.session_from(about_session), as_dict(sample.get("scores")))
        for message in messages or (None,):
            yield session, message

    def sample_message(self, item: Fields, native_id: str, facts: Fields) -> Message | None:
        key = as_str(item.get("id"))
        shaped: Fields = {
            "role": item.get("role"),
            "content": _whole(item.get("content"), facts["attachments"]),
            "model": item.get("model"),
            "tool_calls": [{**as_dict(call), "name": call.get("function")} for call in as_list(item.get("tool_calls"))],
            "tool_call_id": item.get("tool_call_id"),
            "timestamp": facts["times"].get(key) or facts["times"].get(as_str(item.get("tool_call_id"))),
        }
        error = as_dict(item.get("error"))
        if error:
            shaped["content"] = "\n".join(filter(None, (joined(shaped["content"]), as_str(error.get("message")))))
            shaped["error"] = True
        message = self.message_of(shaped, native_id)
        if message is None:
            return None
        if is_ours(message):  # a demonstration from a template is not a call of this session
            self.reading.skip("ours")
            return None
        if message.role == "assistant":
            return replace(message, usage=usage_of(facts["usage"].get(key, {}), *_COUNTS))
        if message.role == "user" and item.get("source") not in (None, "input", "operator"):
            return replace(message, injected=True)
        durations = facts["durations"]
        results = (replace(each, duration=durations.get(each.call_id)) for each in message.tool_results)
        return replace(message, tool_results=tuple(results))


def _message_facts(events: list[Fields]) -> Fields:
    """Times and usage by message id, times and durations by call id."""
    times: Fields = {}
    usage: Fields = {}
    durations: dict[str, float] = {}
    for event in events:
        ended = event.get("completed") or event.get("timestamp")
        if event.get("event") == "model":
            output = as_dict(event.get("output"))
            for choice in as_list(output.get("choices")):
                key = as_str(as_dict(as_dict(choice).get("message")).get("id"))
                times[key], usage[key] = ended, as_dict(output.get("usage"))
        elif event.get("event") == "tool":
            key = as_str(event.get("id"))
            times[key] = ended
            if (took := event.get("working_time")) is not None and as_int(took) is not None:
                durations[key] = round(float(took), 3)
    return {"times": times, "usage": usage, "durations": durations}


def _whole(content: object, attachments: Mapping[str, object]) -> object:
    """The content with its attachments inserted."""
    if isinstance(content, str) and content.startswith(_ATTACHMENT):
        return as_str(attachments.get(content.removeprefix(_ATTACHMENT))) or content
    if isinstance(content, list):
        return [{**as_dict(part), "text": _whole(as_dict(part).get("text"), attachments)} for part in content]
    return content


def _with_outcome(session: Session, scores: Fields) -> Session:
    """The session with the first score as its outcome; other scores are details of the evaluation."""
    for name, score in scores.items():
        if (value := score_value(as_dict(score).get("value"))) is not None:
            outcome: SessionOutcome = "success" if value >= 1 else "failure"
            return replace(session, outcome=outcome, evidence=f"{name} {value:g}", judge="log")
    return session


class InspectReader(OpenAIReader):
    """Reads the logs of Inspect AI, from the paths that the user names."""

    log = _Evaluation
    suffixes = (".eval", ".json")

    def claims(self, path: Path, head: bytes) -> bool:
        if head.startswith(b"PK"):
            return path.suffix == ".eval"
        start = head.lstrip()[:4096]
        return start.startswith(b"{") and b'"eval_id"' in start and b'"run_id"' in start
