"""How good a memory backend is: its score and latencies, how well it finds answers, and whether writes survive.

Everything is measured with throwaway users, so a backend in use can be evaluated. The questions are in `labelled.toml`:
500 memories of five invented people, all written before the questions, and 200 questions of these kinds:

- `exact`: in the memory's own words. `paraphrased`: with a word in common. `distant`: with none.
- `superseded`: about something that changed; the current value must come back, and a former one must not.
- `other`: known about somebody else. `unanswerable`: known about nobody. Silence is right.

The ranking must not be tuned to single questions: the constants in `search` come from a curve over all of them.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from statistics import mean
from typing import Any, Literal, NamedTuple, get_args
from uuid import uuid4

from warmstart.config import ambient_settings
from warmstart.errors import WarmstartError
from warmstart.memory.backend import MemoryBackend
from warmstart.memory.selection import backend_names, open_backend

Kind = Literal["exact", "paraphrased", "distant", "superseded", "other", "unanswerable"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SILENT: tuple[Kind, ...] = ("other", "unanswerable")  # the right answer is none
DERIVATION_SECONDS = 60.0

_LATENCY_POINTS = ((10.0, 20), (50.0, 15), (200.0, 10))  # mean milliseconds below which a backend gets these points
_RECOMMENDATIONS = ((80, "RECOMMENDED"), (60, "ACCEPTABLE"), (40, "MARGINAL"), (0, "NOT RECOMMENDED"))
_WRITERS, _WRITES = 8, 200


class Question(NamedTuple):
    """A question, who asks it, and the key of the memory that answers it; empty if none does."""

    kind: Kind
    person: str
    text: str
    key: str = ""


class Labelled(NamedTuple):
    """The memories, each with its values over time, and the questions."""

    memories: dict[tuple[str, str], list[str]]
    questions: list[Question]


@cache
def labelled() -> Labelled:
    data = tomllib.loads(files("warmstart.memory").joinpath("labelled.toml").read_text(encoding="utf-8"))
    memories = {
        (person, key): [value] if isinstance(value, str) else list(value)
        for person, values in data["memories"].items()
        for key, value in values.items()
    }
    asked = [
        Question(kind, person, text, "".join(key)) for kind in KINDS for person, text, *key in data["questions"][kind]
    ]
    return Labelled(memories, asked)


@dataclass(slots=True)
class Relevance:
    """Per kind of question: how many there are, and the shares answered first and among five, or silent."""

    questions: int = 0
    leaked: int = 0  # entries of another user that came back
    stale: int = 0  # former values that came back
    kinds: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class BackendEvaluation:
    """The measurements of one backend."""

    backend_name: str
    available: bool
    is_cloud: bool
    store_latency_ms: float | None = None
    retrieve_latency_ms: float | None = None
    query_latency_ms: float | None = None
    store_success: bool = False
    retrieve_success: bool = False
    query_returns_results: bool = False
    query_result_count: int = 0
    data_location: str = ""
    requires_api_key: bool = False
    score: int = 0
    notes: list[str] = field(default_factory=list)
    recommendation: str = "NOT AVAILABLE"
    relevance: Relevance | None = None
    survival: dict[str, int] | None = None  # writes, lost, doubled


@contextmanager
def throwaway_user(backend: MemoryBackend, prefix: str = "eval_user") -> Iterator[str]:
    """A user that exists for the duration of a measurement."""
    user = f"{prefix}-{uuid4().hex[:8]}"
    try:
        yield user
    finally:
        backend.forget_user(user, vacuum=False)


def evaluate_backend(backend: MemoryBackend, test_user: str = "eval_user") -> BackendEvaluation:
    """Measure a backend with users whose names begin with `test_user`; they are removed afterwards.

    A check that raises gets no points, and its error goes to the notes.
    """
    location = "the server of its provider" if backend.is_cloud else "this machine"
    result = BackendEvaluation(backend.backend_name, available=False, is_cloud=backend.is_cloud)
    result.data_location, result.requires_api_key = location, backend.is_cloud
    with _noting(result, "is_available"):
        status = backend.status()
        result.data_location = status.address if status else location
        result.available = backend.is_available() and (status is None or backend.is_reachable())
    if not result.available:
        result.notes.append(backend.problem or "not available")
        return result
    for what, measure in (("the score", _score), ("relevance", _relevance), ("survival", _survival)):
        with _noting(result, what):
            measure(backend, test_user, result)
    with _noting(result, "removing the test users"):
        backend.flush(DERIVATION_SECONDS)
    return result


def evaluate_backends(backends: Sequence[MemoryBackend] | None = None, test_user: str = "eval_user") -> dict[str, Any]:
    """Evaluate backends side by side: those given, or all that are configured."""
    with ExitStack() as stack:
        chosen = list(backends or ())
        for name in backend_names() if backends is None else ():
            with suppress(WarmstartError):  # it is not configured
                chosen.append(stack.enter_context(closing(open_backend(name, ambient_settings()))))
        found = [evaluate_backend(backend, test_user) for backend in chosen]
    return {
        "timestamp": time.time(),
        "backends_evaluated": len(found),
        "evaluations": [asdict(each) for each in found],
        "recommendation": _recommend(found),
    }


@contextmanager
def _noting(result: BackendEvaluation, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # third-party backends may raise anything
        result.notes.append(f"{what} failed: {type(error).__name__}: {error}")


# -- the score


def _score(backend: MemoryBackend, test_user: str, result: BackendEvaluation) -> None:
    """Points for what was verified: random values must come back."""
    word = "zq" + uuid4().hex.translate(str.maketrans("0123456789", "ghjklmnopr"))[:8]
    key, value = f"pref_editor_{word[:4]}", f"Writes code in {word} with evil mode."
    latencies: list[float] = []
    with throwaway_user(backend, test_user) as user:
        backend.query(user, "warm up")  # opens files and loads libraries
        stored, result.store_latency_ms = _timed(lambda: backend.store(user, key, value))
        has_arrived = backend.flush(30.0)
        entry, result.retrieve_latency_ms = _timed(lambda: backend.retrieve(user, key))
        found, result.query_latency_ms = _timed(lambda: backend.query(user, f"{word} evil mode"))
    result.retrieve_success = entry is not None and entry.value == value
    result.query_result_count = len(found)
    result.query_returns_results = bool(found) and (found[0].key, found[0].value) == (key, value)
    result.store_success = stored is True and has_arrived and (result.retrieve_success or result.query_returns_results)
    if stored and not result.store_success:
        arrived = "stores nothing" if has_arrived else "did not reach its server in time"
        result.notes.append(f"accepts a value, but {arrived}")
    else:
        latencies = [result.store_latency_ms, result.retrieve_latency_ms, result.query_latency_ms]
    result.score = (
        20
        + 15 * result.store_success
        + 15 * result.retrieve_success
        + 10 * result.query_returns_results
        + (next((points for limit, points in _LATENCY_POINTS if mean(latencies) < limit), 5) if latencies else 0)
        + (5 if backend.is_cloud else 20)
    )
    result.recommendation = next(word for least, word in _RECOMMENDATIONS if result.score >= least)


def _timed(act: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    returned = act()
    return returned, round((time.perf_counter() - began) * 1000, 3)


# -- relevance


def _relevance(backend: MemoryBackend, test_user: str, result: BackendEvaluation) -> None:
    data = labelled()
    with ExitStack() as stack:
        people = dict.fromkeys(person for person, _ in data.memories)
        users = {person: stack.enter_context(throwaway_user(backend, test_user)) for person in people}
        for (person, key), values in data.memories.items():
            for value in values:
                backend.store(users[person], key, value)
        _await_derivation(backend, list(users.values()), result)
        result.relevance = measure_relevance(lambda user, text: backend.query(users[user], text, 5), data)


def _await_derivation(backend: MemoryBackend, users: Sequence[str], result: BackendEvaluation) -> None:
    """Wait until the server has derived what it can from the writes, or until the time limit."""
    if backend.status() is None:
        return
    if not backend.flush(DERIVATION_SECONDS):
        result.notes.append(f"not all writes reached the server within {DERIVATION_SECONDS:g} s")
    began = time.monotonic()
    while time.monotonic() < began + DERIVATION_SECONDS:
        if not any(backend.is_deriving(user) for user in users):
            result.notes.append(f"waited {time.monotonic() - began:.0f} s for the server to derive, which it finished")
            return
        time.sleep(0.25)
    result.notes.append(f"asked after {DERIVATION_SECONDS:g} s, while the server was still deriving")


def measure_relevance(query: Callable[[str, str], Sequence[Any]], data: Labelled) -> Relevance:
    """Ask the questions. `query` takes a person and a text and returns entries."""
    found = Relevance(questions=len(data.questions))
    hits: dict[str, list[tuple[bool, bool]]] = {kind: [] for kind in KINDS}
    all_values = {value for values in data.memories.values() for value in values}
    for kind, person, text, key in data.questions:
        entries = list(query(person, text))[:5]
        right = data.memories.get((person, key), [""])[-1]
        places = [(entry.key, entry.value) == (key, right) for entry in entries]
        own = {value for (whose, _), values in data.memories.items() if whose == person for value in values}
        found.leaked += sum(entry.value in all_values - own for entry in entries)
        found.stale += sum(entry.value in data.memories.get((person, entry.key), [""])[:-1] for entry in entries)
        hits[kind].append((not entries, not entries) if kind in SILENT else (any(places[:1]), any(places)))
    for each, results in hits.items():
        names = ("silent",) if each in SILENT else ("first", "among_five")
        columns = zip(names, zip(*results, strict=True), strict=False)
        found.kinds[each] = {"questions": len(results), **{name: round(mean(hit), 3) for name, hit in columns}}
    return found


# -- survival


def _survival(backend: MemoryBackend, test_user: str, result: BackendEvaluation) -> None:
    """Write from eight threads at once, then compare what is there."""
    with throwaway_user(backend, test_user) as user:

        def write(key: str) -> bool:
            return all(backend.store(user, key, f"{version} value of {key}") for version in ("first", "second"))

        tried = [f"key_{number}" for number in range(_WRITES)]
        with ThreadPoolExecutor(_WRITERS) as pool:
            stored = zip(tried, pool.map(write, tried), strict=True)
        written = {key: f"second value of {key}" for key, is_stored in stored if is_stored}
        reopen = getattr(backend, "reopen", None)
        with closing(reopen()) if reopen else nullcontext(backend) as fresh:
            there = {entry.key: entry.value for entry in fresh.query(user, "", limit=10_000)}
            keys = fresh.list_keys(user)
    lost = sum(there.get(key) != value for key, value in written.items())
    result.survival = {"writes": len(written), "lost": lost, "doubled": len(keys) - len(set(keys))}


# -- the result


def _recommend(found: Sequence[BackendEvaluation]) -> str:
    working = [each for each in found if each.available and each.store_success and each.retrieve_success]
    sound = [each for each in working if not (each.survival or {}).get("lost")] or working
    if not sound:
        return "No backend can be recommended: none of them stores and finds what it is given."
    best = max(sound, key=lambda each: each.score)
    where = "entries leave this machine" if best.is_cloud else "nothing leaves this machine"
    return f"Use {best.backend_name}: {best.score} of 100 ({best.recommendation}), {where}."


def table_rows(evaluations: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """The evaluations side by side: a row per measure, a column per backend."""
    names = ("score", "", "store ms", "retrieve ms", "query ms", *KINDS, "writes lost")
    return list(zip(names, *map(_column, evaluations), strict=True))


def _column(found: Mapping[str, Any]) -> list[str]:
    kinds = (found["relevance"] or {}).get("kinds", {})
    latencies = (found[f"{name}_latency_ms"] for name in ("store", "retrieve", "query"))
    shares = (_shares(kinds.get(kind)) for kind in KINDS)
    lost = (found["survival"] or {}).get("lost")
    return [str(found["score"]), found["recommendation"], *map(_number, latencies), *shares, _number(lost)]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _shares(found: Mapping[str, Any] | None) -> str:
    if not found:
        return "-"
    return f"{found['silent']:.0%} silent" if "silent" in found else f"{found['first']:.0%} / {found['among_five']:.0%}"
