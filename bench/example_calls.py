"""Do examples make the calls of a small model better formed? The first call of real later sessions, generated freely.

For each session a small local model gets the tools (names and argument names, as the agent's logs show them), the
folder and the first message, and writes its first call. It does so three times: with nothing else, with the examples of
a template of the same project, and with those of another project of the same agent. A call is malformed if it cannot
be parsed, its tool is unknown, its argument names are wrong, or it names a file or a program that the project does not
have.

The model and its server are those of `warm_vs_cold`. Decoding is greedy with one thread, so a run can be repeated.

    python bench/example_calls.py --sessions 30
    python bench/example_calls.py --address http://127.0.0.1:8931     # a server that runs already
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from call_form import paths
from examples import DATA, MIN_EARLIER, NEWEST, Past, Project, build_template, is_same_project, newest, read_projects
from foresight import open_corpus
from warmstart import SessionStore
from warmstart.profile.calls import SHELLS, command_in, fields_of
from warmstart.profile.feedback import own_words
from warmstart.profile.tools import common_programs
from warmstart.stats import cluster_ratio
from warmstart.text.shell import PREDICATES, SILENT, parse_commands
from warmstart.tokens import count

ARMS = ("nothing", "own", "other")
MAX_EXAMPLES = 250  # tokens
MAX_MESSAGE = 120
MAX_TOOLS = 10
MAX_REPLY = 160
_COMMON = 0.05  # of a tool's calls that have an argument, for it to be listed
_ALWAYS = 0.9
_CUT_OFF = "cut off"  # a reply that is too long to be judged
# Without it a call has nothing to act on; what else the logs always have may be optional.
_MAIN = frozenset(("command", "cmd", "file_path", "filePath", "path", "pattern", "patchText", "query", "prompt", "url"))


class Tool(NamedTuple):
    required: frozenset[str]
    optional: frozenset[str]


class Case(NamedTuple):
    project: Project
    past: Past
    message: str
    examples: Mapping[str, list[str]]  # by arm


# -- what a call may be


def tools_of(projects: Sequence[Project], agent: str) -> dict[str, Tool]:
    """The tools that an agent used most, with their argument names."""
    used: Counter[str] = Counter()
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for past in (past for project in projects for past in project.of(agent)):
        for tool, arguments in past.texts:
            used[tool] += 1
            names[tool].update(list(fields_of(arguments)) or ["input"])
    tools = {}
    for tool, number in used.most_common(MAX_TOOLS):
        often = {name for name, times in names[tool].items() if times >= _COMMON * number}
        required = frozenset(name for name in often if names[tool][name] >= _ALWAYS * number)
        tools[tool] = Tool(required, frozenset(often) - required)
    return tools


class Place:
    """The files and programs that a project has: what git tracks, and what its sessions named with success."""

    def __init__(self, project: Project, tracked: Sequence[str]) -> None:
        self.roots = project.roots
        found = set(tracked)
        self.programs = {*common_programs(), *SILENT, *PREDICATES}
        for past in project.sessions:
            for call in past.worked:
                found |= call.paths
            for tool, arguments in past.texts:
                if tool in SHELLS:
                    self.programs |= {command.program for command in parse_commands(command_in(arguments))}
        self.paths = found | {
            "/".join(path.split("/")[:depth]) for path in found for depth in range(1, path.count("/"))
        }
        self.paths |= {path.rpartition("/")[0] for path in found}

    def has(self, path: str, *, new: bool) -> bool:
        return path in self.paths or (new and path.rpartition("/")[0] in self.paths)


def fault_of(reply: str, tools: Mapping[str, Tool], place: Place) -> str:
    """What is wrong with a call; empty if it is well-formed."""
    if reply == _CUT_OFF:
        return _CUT_OFF
    start = reply.find("{")
    try:
        call, _ = json.JSONDecoder(strict=False).raw_decode(reply[max(start, 0) :])
    except ValueError:
        return "not parseable"
    if not isinstance(call, dict) or not isinstance(call.get("arguments"), dict):
        return "not parseable"
    tool, arguments = call.get("tool"), call["arguments"]
    if tool not in tools:
        return "unknown tool"
    given = frozenset(arguments)
    if not tools[tool].required & _MAIN <= given or not given <= tools[tool].required | tools[tool].optional:
        return "wrong arguments"
    return _missing(tool, arguments, place)


def _missing(tool: str, arguments: dict[str, Any], place: Place) -> str:
    """The file or program that a call names and the project does not have."""
    text = json.dumps(arguments)
    if tool in SHELLS:
        programs = {command.program.rsplit("/", 1)[-1] for command in parse_commands(command_in(text))}
        if not programs or not programs <= place.programs:
            return "unknown program"
    new = tool not in SHELLS and tool.lower() in ("write", "write_file", "create")
    if not all(place.has(path, new=new) for path in paths(tool, text, place.roots)):
        return "unknown path"
    value = next((str(arguments[name]) for name in arguments if name.lower().endswith("path")), "")
    is_inside = not value.startswith("/") or value.startswith(place.roots)
    return "" if is_inside else "unknown path"


# -- the sessions


def choose_cases(projects: Sequence[Project], store: SessionStore, number: int) -> list[Case]:
    """The newest sessions that can be measured, one project after the other."""
    waiting: dict[str, list[Case]] = {}
    for project in projects:
        cases = [case for past in reversed(project.sessions) if (case := make_case(projects, project, past, store))]
        if cases:
            waiting[project.name] = cases
    chosen: list[Case] = []
    while any(waiting.values()) and len(chosen) < number:
        for cases in waiting.values():
            if cases and len(chosen) < number:
                chosen.append(cases.pop(0))
    return chosen


def make_case(projects: Sequence[Project], project: Project, past: Past, store: SessionStore) -> Case | None:
    agent = past.session.agent
    earlier = [one for one in project.of(agent) if one.ended < past.began]
    others = [
        other for other in projects if not is_same_project(other, project) and len(other.of(agent)) >= MIN_EARLIER
    ]
    message = next((text for one in store.messages(past.session.id) if (text := own_words(one).strip())), "")
    if past.session.parent_kind or not past.calls or len(earlier) < MIN_EARLIER or not others or not message:
        return None
    other = others[len(earlier) % len(others)]
    examples = {
        "nothing": [],
        "own": write_examples(build_template(newest(earlier, NEWEST))),
        "other": write_examples(build_template(newest(other.of(agent), NEWEST))),
    }
    return Case(project, past, shorten(message, MAX_MESSAGE), examples)


def write_examples(calls: Sequence[tuple[str, str]]) -> list[str]:
    lines: list[str] = []
    for tool, arguments in calls:
        fields = fields_of(arguments) or {"command" if tool in SHELLS else "input": arguments}
        line = json.dumps({"tool": tool, "arguments": fields}, ensure_ascii=False)
        if count("\n".join((*lines, line))) <= MAX_EXAMPLES:
            lines.append(line)
    return lines


def shorten(text: str, tokens: int) -> str:
    while count(text) > tokens:
        text = text[: int(len(text) * 0.9)]
    return text


# -- the model


def prompt_of(case: Case, arm: str, tools: Mapping[str, Tool]) -> list[dict[str, str]]:
    lines = []
    for name, tool in tools.items():
        arguments = (*sorted(tool.required), *(f"{argument}?" for argument in sorted(tool.optional)))
        lines.append(f"- {name}({', '.join(arguments)})")
    system = (
        "You are a coding agent. Answer with your first tool call only, as one JSON object "
        '{"tool": NAME, "arguments": {...}}, and nothing else.\nTools (? is optional):\n'
        + "\n".join(lines)
        + f"\nYou work in {case.past.session.directory or case.past.session.project}."
    )
    examples = case.examples[arm]
    shown = "Calls that worked in earlier sessions:\n" + "\n".join(examples) + "\n\n" if examples else ""
    return [{"role": "system", "content": system}, {"role": "user", "content": f"{shown}Task: {case.message}"}]


def ask(address: str, messages: list[dict[str, str]]) -> str:
    body = {"messages": messages, "temperature": 0, "max_tokens": MAX_REPLY, "cache_prompt": True}
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=900) as response:
        choice = json.load(response)["choices"][0]
        return _CUT_OFF if choice["finish_reason"] == "length" else str(choice["message"]["content"])


def run(address: str, cases: Sequence[Case], projects: Sequence[Project], data: Path, minutes: float) -> None:
    faults: dict[str, list[str]] = {arm: [] for arm in ARMS}
    tokens: Counter[str] = Counter()
    deadline = time.monotonic() + 60 * minutes
    for number, case in enumerate(cases, 1):
        if time.monotonic() > deadline:
            print(f"stopped before session {number} of {len(cases)}: the time is up")
            break
        agent = case.past.session.agent
        tools = tools_of(projects, agent)
        place = Place(case.project, tracked_files(data, case.project))
        began = time.perf_counter()
        for arm in ARMS:
            reply = ask(address, prompt_of(case, arm, tools))
            faults[arm].append(fault_of(reply, tools, place))
            tokens[arm] += count("\n".join(case.examples[arm]))
            print(f"{number:>3} {case.project.name:<24}{arm:<9}{faults[arm][-1]:<17}{reply[:150]!r}", flush=True)
        print(f"    {time.perf_counter() - began:.0f} s", flush=True)
    report(faults, tokens)


def tracked_files(data: Path, project: Project) -> list[str]:
    file = data / "projects" / project.name.partition("@")[0] / "meta" / "PROJECT.json"
    return list(json.loads(file.read_text(encoding="utf-8"))["tracked"]) if file.exists() else []


def report(faults: Mapping[str, Sequence[str]], tokens: Mapping[str, int]) -> None:
    """The malformed calls of each arm by cause, and the paired differences with their intervals."""
    number = len(faults["own"])
    print(f"\n{number} sessions; malformed first calls:")
    for arm in ARMS:
        causes = Counter(filter(None, faults[arm]))
        cut = causes.pop(_CUT_OFF, 0)
        mean = tokens[arm] / max(1, number)
        listed = ", ".join(f"{cause} {times}" for cause, times in causes.most_common())
        print(f"  {arm:<9}{causes.total():>4} ({listed}); {cut} cut off; {mean:.0f} tokens of examples")
    for base in ("nothing", "other"):
        pairs = list(zip(faults["own"], faults[base], strict=True))
        pairs = [pair for pair in pairs if _CUT_OFF not in pair]
        difference = cluster_ratio([bool(own) - bool(other) for own, other in pairs], [1] * len(pairs))
        better = sum(bool(other) and not own for own, other in pairs)
        worse = sum(bool(own) and not other for own, other in pairs)
        print(f"  own - {base}: {difference}, {len(pairs)} pairs; better in {better}, worse in {worse}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=60, help="start no session after so many")
    parser.add_argument("--address", help="of a server with the model; without it, one is started")
    parser.add_argument("--model", type=Path, default=Path.home() / ".cache" / "warmstart-bench", help="its folder")
    args = parser.parse_args()
    if not (args.data / "projects").is_dir():
        sys.exit(f"No benchmark data in {args.data / 'projects'}; give its folder with --data")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(closing(open_corpus(args.data, "projects", Path(folder))))
        projects = list(read_projects(store, "projects"))
        cases = choose_cases(projects, store, args.sessions)
        address = args.address
        if not address:
            sys.path.append(str(Path(__file__).parent / "warm_vs_cold"))
            from model import get_model, serving

            address = stack.enter_context(serving(get_model(args.model), 8931))
        run(address, cases, projects, args.data, args.minutes)


if __name__ == "__main__":
    main()
