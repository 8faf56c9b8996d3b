"""Lab experiments: the same tasks in every arm, run by Inspect AI.

Every session is one evaluation of one sample, so that an interrupted run can be resumed. Arms alternate, so that drift
over time affects all of them. A session has its own home, working copy (Inspect's sandbox) and memory. Its start is
rendered beforehand, so that it never sees the store it came from.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from warmstart.errors import ExperimentError
from warmstart.experiments.design import KINDS, Arm, Design
from warmstart.experiments.store import Experiments
from warmstart.profile.profiler import Profiler
from warmstart.profile.values import Profile
from warmstart.sessions.readers.base import Reading
from warmstart.sessions.readers.inspect import InspectReader
from warmstart.templates.item import MAX_EXAMPLES
from warmstart.templates.rendering import render
from warmstart.templates.template import SessionSeed, WarmTemplate

Isolate = Callable[[Path], AbstractContextManager[object]]
Progress = Callable[[int, int], None]
Sources = Any  # a `Warmstart`, which this package cannot import
_BUDGET = 1200  # tokens for a template


class Todo(NamedTuple):
    """A session to run."""

    task: str
    arm: str
    epoch: int

    @property
    def name(self) -> str:
        """The id of the session within its experiment."""
        return f"{self.task}/{self.arm}/{self.epoch}"


def load_task(spec: str, folder: Path) -> Any:
    """Load the Inspect task of a design: `file.py@name`, relative to the design, or `module:name`."""
    try:
        import inspect_ai  # noqa: F401 - the extra `experiments`, which the tasks need too
    except ImportError as error:
        raise ExperimentError("inspect-ai is not installed: pip install 'warmstart[experiments]'") from error
    path, at, name = spec.partition("@")
    if not at:
        path, _, name = spec.partition(":")
    try:
        if at:
            module_name = f"warmstart_tasks_{Path(path).stem}"
            source = importlib.util.spec_from_file_location(module_name, folder / path)
            if source is None or source.loader is None:
                raise ImportError(f"{path} is not a Python file")
            module = importlib.util.module_from_spec(source)
            sys.modules[module_name] = module
            source.loader.exec_module(module)
        else:
            module = importlib.import_module(path)
        task = getattr(module, name)()
    except (ImportError, AttributeError, OSError, SyntaxError) as error:
        raise ExperimentError(f"the tasks {spec!r} cannot be loaded: {error}") from error
    for number, sample in enumerate(task.dataset):
        sample.id = number + 1 if sample.id is None else sample.id
    return task


# -- starts


def start_messages(ws: Sources, design: Design, arm: Arm, task: str) -> list[Any]:
    """The messages that a session of an arm starts with, in OpenAI's shape, before its task."""
    messages: list[Any] = []
    if "brief" in arm.start:
        text = str(ws.brief(project=design.project or ".", task=task))
        messages += [{"role": "system", "content": text}] if text else []
    if not set(arm.start) - {"brief"}:
        return messages
    own = ws.templates.get(arm.template or design.template)
    most = MAX_EXAMPLES if arm.examples is None else arm.examples
    warm = render(_select(own, arm), budget_tokens=_BUDGET, task=task, max_examples=most)
    if "placebo" in arm.start:
        # As long as the start of a warm session.
        other = _select(ws.templates.get(design.placebo), arm)
        warm = render(other, budget_tokens=warm.tokens, task=task, max_examples=most)
    return messages + warm.messages


def _select(template: WarmTemplate, arm: Arm) -> WarmTemplate:
    """The template with only the kinds of items that the arm shows."""
    kinds = {KINDS[part] for part in arm.start if part in KINDS}
    items = (item for item in template.seed.items if not kinds or item.kind in kinds)
    return replace(template, seed=SessionSeed(items=tuple(items)))


def starting_solver(messages: Sequence[Any]) -> Any:
    """An Inspect solver that inserts the start between the system prompt and the task."""
    from inspect_ai.model import messages_from_openai
    from inspect_ai.solver import Generate, TaskState, solver

    @solver(name="warmstart_start")
    def start() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            is_prompt = [message.role == "system" for message in state.messages]
            place = [*is_prompt, False].index(False)
            state.messages[place:place] = await messages_from_openai(list(messages))
            return state

        return solve

    return start()


def loop_solver(design: Design, arm: Arm, overlay: str = "") -> Any:
    """A plain agent that generates and runs tools until the model stops; compaction and preflight depend on the arm.

    `overlay` is what preflight shows for the task. Tools come from the task's setup. The log keeps every message: only
    the copy that the model gets is compacted.
    """
    from inspect_ai.model import (
        ChatMessageUser,
        execute_tools,
        get_model,
        messages_from_openai,
        messages_to_openai,
    )
    from inspect_ai.solver import Generate, TaskState, solver

    from warmstart.handoff.compact import compact

    async def fit(messages: list[Any]) -> list[Any]:
        plain = await messages_to_openai(messages)
        done = compact(plain, budget_tokens=design.context_tokens, strategy=arm.compaction or "mask")
        return messages if done.messages == plain else await messages_from_openai(done.messages)

    @solver(name="warmstart_loop")
    def loop() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            if overlay:
                state.messages.append(ChatMessageUser(content=overlay))
            for _ in range(design.max_turns):
                shown = await fit(state.messages) if design.context_tokens else state.messages
                state.output = await get_model().generate(shown, state.tools)
                state.messages.append(state.output.message)
                if not state.output.message.tool_calls:
                    break
                done = await execute_tools(state.messages, state.tools)
                state.messages.extend(done.messages)
            return state

        return solve

    return loop()


# -- running


def todo(design: Design, tasks: Sequence[str], done: Iterable[str]) -> list[Todo]:
    """The sessions left to run, with the arms of each task in random order so that none is always first."""
    random = Random(design.seed)  # noqa: S311 - no secret
    order, left, known = list(tasks), [], set(done)
    random.shuffle(order)
    for epoch in range(1, design.epochs + 1):
        for task in order:
            arms = list(design.arms)
            random.shuffle(arms)
            left += [each for arm in arms if (each := Todo(task, arm, epoch)).name not in known]
    return left


def known_tasks(ws: Sources, design: Design, samples: Mapping[str, str]) -> list[str]:
    """The tasks that a template of the experiment was extracted from, matched by their text: they do not count."""
    names = {arm.template or design.template for arm in design.arms.values() if set(arm.start) - {"brief"}}
    seen: set[str] = set()
    for template in (ws.templates.get(name) for name in names if name):
        for source in template.sources:
            first = next((each for each in ws.sessions.messages(source) if each.role == "user"), None)
            seen |= {" ".join(first.text.split())} if first else set()
    return [name for name, text in samples.items() if " ".join(text.split()) in seen]


def run_lab(
    ws: Sources,
    experiments: Experiments,
    design: Design,
    *,
    folder: Path,
    logs: Path,
    isolate: Isolate,
    limit: int = 0,
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Run the remaining sessions, at most `limit`, or only those of some arms; returns notes on the run."""
    task = load_task(design.tasks, folder)
    samples = {str(sample.id): sample for sample in task.dataset}
    texts = {name: _input_text(sample) for name, sample in samples.items()}
    dropped = known_tasks(ws, design, texts)
    notes = [f"Left out {len(dropped)} of {len(samples)} tasks that a template came from."] if dropped else []
    done = [trial.session for trial in experiments.trials(design.name) if trial.measures]
    left = todo(design, [name for name in samples if name not in dropped], done)
    wanted = [each for each in left if not only or each.arm in only]
    chosen = wanted[:limit] if limit else wanted
    setup = task.setup if isinstance(task.setup, list) else [task.setup] if task.setup else []
    failed: list[str] = []
    empty: set[str] = set()
    for number, each in enumerate(chosen):
        arm, text = design.arm(each.arm), texts[each.task]
        start = start_messages(ws, design, arm, text)
        empty |= {each.arm} if arm.start and not start else set()
        changes: dict[str, Any] = {"dataset": [samples[each.task]], "setup": [*setup, starting_solver(start)]}
        if design.agent == "loop":
            shown = str(ws.preflight(text, project=design.project or ".").text or "") if arm.preflight else ""
            changes["solver"] = loop_solver(design, arm, shown)
        profile, problem = _run_one(task, design, changes, logs / each.arm, isolate)
        experiments.record(design, each.name, each.arm, task=each.task, profile=profile)
        failed += [f"{each.name}: {problem}"] if problem else []
        if progress:
            progress(number + 1, len(chosen))
    if empty:
        notes.append(f"Some sessions had nothing to start with and ran cold: arm {', '.join(sorted(empty))}.")
    if failed:
        notes.append(f"{len(failed)} sessions have no outcome; --resume runs them again. First error: {failed[0]}")
    elif len(chosen) == len(left):
        experiments.finish(design.name)
    return notes


def _run_one(
    task: Any, design: Design, changes: Mapping[str, Any], logs: Path, isolate: Isolate
) -> tuple[Profile | None, str]:
    """Run one session in its own home; returns its profile, or `None` and the reason if it did not finish."""
    from inspect_ai import eval as evaluate
    from inspect_ai import task_with
    from inspect_ai.model import get_model

    with TemporaryDirectory(prefix="warmstart-arm-") as home, isolate(Path(home)):
        logs_written = evaluate(
            task_with(task, **changes),
            model=get_model(design.model, **design.model_args),
            log_dir=str(logs),
            display="none",
            epochs=1,
        )
    if not logs_written or logs_written[0].status == "cancelled":  # Inspect swallows the interrupt
        raise KeyboardInterrupt
    (log,) = logs_written
    if log.status != "success":
        return None, log.error.message.splitlines()[0] if log.error else str(log.status)
    path = Path(log.location)
    pairs = list(InspectReader().read(path, Reading(path)))
    messages = [message for _, message in pairs if message]
    return Profiler().profile(pairs[0][0], messages), ""


def _input_text(sample: Any) -> str:
    return sample.input if isinstance(sample.input, str) else str(sample.input[-1].text)
