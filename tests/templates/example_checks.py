"""What templates made from real sessions must hold and must not, as checks that say what is wrong with which session.

    python -m tests.templates.example_checks --keep /tmp/checks.db --sample 4

imports the benchmark data with the product's readers, makes a template of every session (or of every fourth), prints a
table and the first offenders of each check. `--keep` saves the import for the next run; `--check NAME` and `--session
ID` narrow down.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import warmstart
from warmstart.errors import WarmstartError
from warmstart.profile.calls import SHELLS, command_in, fields_of, path_in
from warmstart.profile.feedback import own_words
from warmstart.profile.output import unwrap
from warmstart.profile.profiler import Profiler
from warmstart.profile.tools import role_of
from warmstart.profile.values import AnnotatedStep
from warmstart.redact import redact
from warmstart.sessions.marks import is_ours
from warmstart.sessions.store import Filter
from warmstart.sessions.values import Message, Session
from warmstart.templates import SessionExtractor
from warmstart.templates.item import Source
from warmstart.text.shell import parse_commands

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))  # the benchmarks are scripts

from call_form import commands_in, forms, is_look_around, paths

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CORPORA = ("sessions", "history", "projects", "tau_bench", "tau2")
CUSTOMERS = ("tau_bench", "tau2")
MAX_LINES = 3
PLACEHOLDER = re.compile(r"\{\{\w+\}\}")


class Offence(NamedTuple):
    check: str
    session: str
    detail: str


class Case:
    """A session and the template made of it; `refusal` says why there is none."""

    def __init__(self, corpus: str, session: Session, messages: list[Message], steps: Sequence[AnnotatedStep]) -> None:
        self.corpus = corpus
        self.session = session
        self.messages = messages
        self.steps = steps
        self.template: warmstart.WarmTemplate | None = None
        self.refusal = ""
        self.refused: dict[tuple[str, int], str] = {}  # tool and turn of a call that is no example -> why

    @property
    def roots(self) -> tuple[str, str]:
        return self.session.directory, self.session.project

    @cached_property
    def worked(self) -> list[AnnotatedStep]:
        """The successful calls. Plans and the state of a session are no work."""
        return [step for step in self.steps if step.outcome == "ok" and step.call.name and step.role != "note"]

    @cached_property
    def examples(self) -> list[Any]:
        return list(self.template.seed.tool_examples) if self.template else []  # type: ignore[attr-defined]

    @cached_property
    def good_examples(self) -> list[Any]:
        return [example for example in self.examples if example.success]

    @cached_property
    def single_examples(self) -> list[Any]:
        """The examples that are no mistake with what worked instead."""
        items = self.template.seed.items if self.template else ()
        return [item.calls[0] for item in items if item.kind == "example" and len(item.calls) == 1]

    @cached_property
    def typed(self) -> str:
        return "\n".join(own_words(message) for message in self.messages if message.role == "user").lower()

    @cached_property
    def texts(self) -> list[str]:
        """Every text in the template. Identifiers of the sessions and messages it comes from are not its texts."""
        if self.template is None:
            return []
        template = dataclasses.replace(self.template, sources=(), project="", agent="", id="", name="")
        return list(strings_in(template))

    @cached_property
    def text(self) -> str:
        return "\n".join(self.texts)

    @cached_property
    def call_texts(self) -> list[str]:
        """The values in the calls that the template shows, and their results."""
        shown: list[str] = []
        for item in self.template.seed.items if self.template else ():
            for call in item.calls:
                shown += leaves(call.arguments)
                shown.append(call.result)
            if item.kind in ("command", "trap", "example"):
                shown.append(item.text)
        return shown


def strings_in(value: object, *, names: bool = True) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Source):
        return
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from strings_in(getattr(value, field.name))
    elif isinstance(value, dict):
        for name, part in value.items():
            if names:
                yield from strings_in(name)
            yield from strings_in(part, names=names)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings_in(part, names=names)


def leaves(arguments: str) -> list[str]:
    """The strings in the arguments of a call."""
    try:
        return list(strings_in(json.loads(arguments)))
    except ValueError:
        return [arguments]


# -- the checks: each yields what is wrong


def check_extracts(case: Case) -> Iterator[str]:
    """Any session with a successful call gives a template."""
    if any(step.outcome == "ok" for step in case.steps) and case.template is None:
        tools = Counter(step.call.name for step in case.steps if step.outcome == "ok")
        yield f"{case.refusal[:300]} | succeeded: {dict(tools.most_common(4))}"


def check_number(case: Case) -> Iterator[str]:
    """Three or more different successful calls give at least three examples."""
    different = {(step.call.name, step.call.arguments) for step in case.worked}
    if len(different) >= 3 and len(case.good_examples) < 3:
        yield f"{len(case.good_examples)} of {len(different)}: {shown_calls(case.worked)}"


def check_tools(case: Case) -> Iterator[str]:
    """A session that used two tools gives examples of two."""
    used = Counter(step.call.name for step in case.worked if (step.call.name, step.turn) not in case.refused)
    shown = {example.tool_name for example in case.good_examples}
    if len(used) >= 2 and len(case.worked) >= 3 and len(shown) < 2:
        yield f"shows {sorted(shown)} of {dict(used)}"


def check_looks(case: Case) -> Iterator[str]:
    """No bare look-around while a call of another form that says more is neither shown nor refused."""
    looks = [call for call in case.single_examples if is_look_around(call.tool_name, call.arguments)]
    if not looks:
        return
    shown = {form for example in case.examples for form in forms(example.tool_name, example.arguments)}
    better: dict[object, AnnotatedStep] = {}
    for step in case.worked:
        form = forms(step.call.name, step.call.arguments)
        is_refused = (step.call.name, step.turn) in case.refused
        if not is_look_around(step.call.name, step.call.arguments) and not form <= shown and not is_refused:
            better.setdefault(form, step)
    if better:
        example = looks[0]
        yield (
            f"{len(looks)} shown, such as {example.tool_name} {example.arguments[:80]}; "
            f"{len(better)} better forms are not: {shown_calls(list(better.values())[:4])}"
        )


def check_recoveries(case: Case) -> Iterator[str]:
    """Every error that another form of the same call recovered from is among examples or traps."""
    if case.template is None:
        return
    for failed, fixed in recovered(case):
        if not is_among(failed, fixed, case):
            error = unwrap(failed.result.text).text.strip()[:80] if failed.result else ""
            why = case.refused.get((fixed.call.name, fixed.turn), "")
            yield f"{shown_calls([failed, fixed])} ({error!r}){' refused: ' + why if why else ''}"


def is_among(failed: AnnotatedStep, fixed: AnnotatedStep, case: Case) -> bool:
    """Whether the template shows a mistake together with what worked."""
    items = case.template.seed.items if case.template else ()
    pairs = [(item.calls[0], item.calls[-1]) for item in items if len(item.calls) > 1]
    return any(is_same(failed, mistake) and is_same(fixed, fix) for mistake, fix in pairs)


# Arguments that no template shows: what changed in them is left out of an example.
_CONTENTS = frozenset(
    (
        *("old_string", "new_string", "old_str", "new_str", "oldString", "newString", "content", "contents", "text"),
        *("patch", "patchText", "input", "prompt", "message", "body", "todos", "description", "justification"),
        *("timeout", "pattern", "query"),
    )
)
_MISUSE = re.compile(
    r"not found|unknown|unrecogni[sz]ed|invalid|usage|no such|missing|cannot find|can't find|unexpected arg|requires"
    r"|ambiguous|does not exist|no matches|syntax|parse|unsupported|not a valid|provided|not allowed|undefined flag",
    re.IGNORECASE,
)


def recovered(case: Case) -> Iterator[tuple[AnnotatedStep, AnnotatedStep]]:
    """The mistakes in a call that another form of the same call mended, the first of each kind.

    The second call must be about the same thing as the first, and what changed must be something that can be shown:
    not only the text of an edit. A check that failed because of the code is no mistake in the call.
    """
    by_position = {step.position: step for step in case.steps}
    seen = set()
    for step in case.steps:
        recovery = step.recovery
        if not recovery or not recovery.changes or step.role == "note" or "ibling tool call" in step.signature:
            continue
        fixed = by_position[recovery.succeeded]
        error = step.result.text[:2000] if step.result else ""
        if step.role == "check" and not _MISUSE.search(error):
            continue
        change = (step.call.name, forms(step.call.name, step.call.arguments), step.signature)
        if change not in seen and is_about_the_same(step, fixed, case.roots):
            seen.add(change)
            yield step, fixed


def is_about_the_same(failed: AnnotatedStep, fixed: AnnotatedStep, roots: tuple[str, ...]) -> bool:
    """Whether the second call is the first one in another form, with a difference that a template can show."""
    tool, before, after = failed.call.name, failed.call.arguments, fixed.call.arguments
    if tool in SHELLS:
        old_forms, new_forms = forms(tool, before), forms(tool, after)
        common = {form[:2] for form in old_forms} & {form[:2] for form in new_forms}
        differs = old_forms != new_forms or paths(tool, before, roots) != paths(tool, after, roots)
        return bool(common) and differs and _likeness(command_in(before), command_in(after)) > 0.6
    old, new = fields_of(before), fields_of(after)
    changed = {name for name in {**old, **new} if old.get(name) != new.get(name)} - _CONTENTS
    kept = {name for name, value in old.items() if new.get(name) == value and isinstance(value, str)}
    if not any(roots):  # an application's own functions: the values are a customer's
        changed = old.keys() ^ new.keys()
    return bool(changed) and (bool(kept) or _likeness(before, after) > 0.6)


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one[:400], other[:400], autojunk=False).ratio()


def is_same(step: AnnotatedStep, shown: Any) -> bool:
    """Whether a call that is shown is this one: the same tool, and for a shell one of the same programs."""
    if step.call.name in SHELLS and (shown.tool_name in SHELLS or shown.tool_name == "shell"):
        return bool(programs(step.call.arguments) & programs(shown.arguments))
    return step.call.name == shown.tool_name and (
        not fields_of(shown.arguments) or fields_of(step.call.arguments).keys() >= fields_of(shown.arguments).keys()
    )


def programs(arguments: str) -> set[str]:
    return {command.program for command in parse_commands(command_in(arguments) or arguments)}


def check_empty(case: Case) -> Iterator[str]:
    """No example shows a command that is only a placeholder, and no mistake of a coding agent looks like its fix.

    Of an application's calls the values are a customer's: there the error says what was wrong.
    """
    for example in case.examples:
        if example.tool_name in SHELLS and PLACEHOLDER.fullmatch(command_in(example.arguments).strip()):
            yield f"{'' if example.success else 'FAILED '}{example.tool_name} {example.arguments[:100]}"
    for item in case.template.seed.items if case.template and any(case.roots) else ():
        if len(item.calls) > 1 and is_as_before(item.calls[0], item.calls[-1]):
            yield f"FAILED as what worked: {item.calls[0].tool_name} {item.calls[0].arguments[:100]}"


def is_as_before(failed: Any, worked: Any) -> bool:
    before, after = (re.sub(r"_\d+(?=\}\})", "", call.arguments) for call in (failed, worked))
    return (failed.tool_name, before) == (worked.tool_name, after)


def check_plans(case: Case) -> Iterator[str]:
    """No plan or session-state tool is an example."""
    for example in case.examples:
        if role_of(example.tool_name, example.arguments) == "note":
            yield f"{example.tool_name} {example.arguments[:100]}"


def check_content(case: Case) -> Iterator[str]:
    """No text of a call is longer than three lines, and none joins four lines of a file."""
    for text in dict.fromkeys(case.call_texts):
        lines = [line for line in text.replace("\\n", "\n").splitlines() if line.strip(" …")]
        if len(lines) > MAX_LINES:
            yield f"{len(lines)} lines: {text[:120]!r}"
    long = [re.sub(r"\s+", " ", text) for text in dict.fromkeys(case.call_texts) if len(text) > 120]
    if not long:
        return
    for content in contents(case.steps):
        lines = [re.sub(r"\s+", " ", line).strip() for line in content.splitlines()]
        lines = [line for line in lines if len(line) > 3]
        for place in range(len(lines) - MAX_LINES):
            window = " ".join(lines[place : place + MAX_LINES + 1])
            is_list = all(" " not in line for line in lines[place : place + MAX_LINES + 1])  # names of files
            if len(window) > 40 and not is_list and any(window in text for text in long):
                yield f"four lines joined: {window[:120]!r}"
                return


def contents(steps: Sequence[AnnotatedStep]) -> Iterator[str]:
    """The contents of files that a session wrote or saw."""
    for step in steps:
        for text in leaves(step.call.arguments):
            if text.count("\n") >= MAX_LINES:
                yield text
        if step.result and step.result.text.count("\n") >= MAX_LINES:
            yield step.result.text


def check_secrets(case: Case) -> Iterator[str]:
    """No secret is in any text."""
    for text in case.texts:
        for finding in redact(text).findings:
            yield f"{finding.kind} in {text[:60]!r}"


_WEB_TOOL = re.compile(
    r"web|fetch|browse|issue|pull_request|_pr$|deepwiki|context7|search_documentation", re.IGNORECASE
)
_WEB_COMMAND = re.compile(r"\bgh (?:issue|pr|api|release|search|run)\b|\b(?:curl|wget|lynx|xh|http)\b")
_TOKEN = re.compile(r"[^\W_][\w.@/:+-]{3,}")
_RESULT_WORDS = "lines output object list field fields passed failed error exit code with without items matches empty"


@cache
def vocabulary() -> frozenset[str]:
    """The words that the product brings itself: those of its tables of programs and tools, and of results' shapes."""
    package = Path(warmstart.__file__).parent
    tables = (*(package / "templates").glob("*.toml"), *(package / "profile" / "tables").glob("*.toml"))
    text = " ".join((_RESULT_WORDS, *(table.read_text(encoding="utf-8") for table in tables)))
    return frozenset(word.lower() for word in re.findall(r"[A-Za-z][\w-]{3,}", text))


def shown_texts(case: Case) -> list[str]:
    """What the items of a template say: the values in their calls, the results and the texts, without our labels."""
    items = [item for item in case.template.seed.items if item.kind != "habit"] if case.template else []
    texts = [item.text for item in items]
    for call in (call for item in items for call in item.calls):
        texts += [*values_in(call.arguments), call.result]
    return texts


def values_in(arguments: str) -> list[str]:
    """The strings in the arguments of a call, without the names of the arguments."""
    try:
        return list(strings_in(json.loads(arguments), names=False))
    except ValueError:
        return [arguments]


def is_outside(step: AnnotatedStep) -> bool:
    """Whether the result of a call was written by people outside: a web page, an issue, a pull request."""
    if commands := commands_in(step.call.name, step.call.arguments):
        return bool(_WEB_COMMAND.search(commands))
    return bool(_WEB_TOOL.search(step.call.name))


def check_outside(case: Case) -> Iterator[str]:
    """No word that only a web page, an issue or a pull request had brought into the session."""
    if case.template is None or not any(map(is_outside, case.steps)):
        return
    texts = shown_texts(case)
    words = {word.lower().rstrip(".:/-") for text in texts for word in _TOKEN.findall(PLACEHOLDER.sub(" ", text))}
    # A file that was read or changed is there, whoever named it first.
    files = {
        path.lower()
        for step in case.worked
        if not is_outside(step)
        for path in (path_in(step.call.arguments), *paths(step.call.name, step.call.arguments, case.roots))
    }
    known = case.typed + "\n".join(files)
    words = {word for word in words if len(word) > 3 and not word.isdigit()} - vocabulary()
    words = {word for word in words if word not in known}
    seen_inside: list[str] = [message.text.lower() for message in case.messages if message.role == "system"]
    brought: dict[str, str] = {}
    steps = {step.call.id: step for step in case.steps}
    for message in case.messages:
        if message.role != "tool" and not is_ours(message):
            seen_inside.append(message.text.lower())
        seen_inside += [call.arguments.lower() for call in message.tool_calls]
        for result in message.tool_results:
            text = result.text.lower()
            step = steps.get(result.call_id)
            if step is None or not is_outside(step):
                seen_inside.append(text)
                continue
            before = "\n".join(seen_inside)
            seen_inside = [before]
            for word in words - brought.keys():
                if has_word(text, word) and word not in before:
                    brought[word] = step.call.name
    for word, tool in brought.items():
        place = next((text for text in texts if word in text.lower()), "")
        yield f"{word!r} came from {tool}: {place[:100]!r}"


def has_word(text: str, word: str) -> bool:
    return word in text and re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", text) is not None


# -- customers

_THEIRS = frozenset(
    (
        *("user_id", "reservation_id", "order_id", "payment_id", "payment_method_id", "email", "dob", "phone"),
        *("first_name", "last_name", "address1", "address2", "city", "zip", "phone_number"),
    )
)
# Written the same way wherever they stand, also in what the customer says.
_IDENTIFIER = re.compile(
    r"#W\d+|\b(?:credit_card|gift_card|paypal|certificate)_\d+|\b[a-z]+_[a-z]+_\d{3,}\b|[\w.+-]+@[\w-]+\.\w+"
    r"|\b\d{3}-\d{3,4}-\d{4}\b"
)


def customer_values(messages: Iterable[Message]) -> set[str]:
    """Every value in a session that names a customer or what is theirs."""
    found: set[str] = set()
    for message in messages:
        texts = [call.arguments for call in message.tool_calls] + [result.text for result in message.tool_results]
        for text in texts:
            if text[:1] in ("{", "["):
                with suppress(ValueError):
                    found |= set(_named(json.loads(text)))
        for text in (*texts, message.text if message.role == "user" else ""):
            found |= set(_IDENTIFIER.findall(text))
    return found


def _named(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        if key == "payment_methods":
            yield from (name for name in value if name[-1:].isdigit())
        if isinstance(value.get("first_name"), str) and isinstance(value.get("last_name"), str):
            yield f"{value['first_name']} {value['last_name']}"
        for name, part in value.items():
            yield from _named(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from _named(part, "order_id" if key in ("reservations", "orders") else key)
    elif isinstance(value, str) and key in _THEIRS and len(value) > 1:
        yield value


def is_distinctive(value: str) -> bool:
    """Whether a value names somebody in whatever session it stands: an id, an address, a full name."""
    return len(value) > 5 and (any(map(str.isdigit, value)) or "@" in value or " " in value)


def check_customers(case: Case, everyone: set[str]) -> Iterator[str]:
    """No value of a customer of this session, and no distinctive one of any session."""
    if case.corpus not in CUSTOMERS or case.template is None:
        return
    system = "\n".join(message.text for message in case.messages if message.role == "system")
    text = case.text
    words = set(re.findall(r"[\w#@.+-]+", text))
    for value in sorted(customer_values(case.messages) | everyone):
        if value.split()[0].rstrip(".,") not in words and value not in text:
            continue
        if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) and not has_word(system, value):
            place = next((one for one in case.texts if value in one), "")
            yield f"{value!r} in {place[:100]!r}"


def shown_calls(steps: Sequence[AnnotatedStep]) -> str:
    """The first of these calls, for a person to read."""
    shown = []
    for step in steps[:4]:
        text = command_in(step.call.arguments) if step.call.name in SHELLS else step.call.arguments
        shown.append(f"{step.call.name} {text[:90]}")
    return "; ".join(shown).replace("\n", "⏎")


CHECKS = {
    "extracts": check_extracts,
    "number": check_number,
    "tools": check_tools,
    "looks": check_looks,
    "recoveries": check_recoveries,
    "empty": check_empty,
    "plans": check_plans,
    "content": check_content,
    "secrets": check_secrets,
    "outside": check_outside,
}
NAMES = (*CHECKS, "customers")


# -- running


def import_data(ws: warmstart.Warmstart, data: Path, corpora: Sequence[str] = CORPORA) -> None:
    """Import the corpora with the product's readers, redacted, without the derived data of a full sync."""
    from warmstart.sessions.sync import path_sources, sync

    sync(ws.store, path_sources([data / name for name in corpora]), redactor=ws.redactor)


def corpus_of(session: Session, data: Path) -> str:
    return Path(session.source).relative_to(data).parts[0]


def read_cases(
    ws: warmstart.Warmstart, data: Path = DATA, *, sample: int = 1, corpora: Sequence[str] = CORPORA, only: str = ""
) -> Iterator[Case]:
    """The sessions with their templates; with `sample`, every so many in an order that stays the same."""
    profiler, extractor = Profiler(), SessionExtractor(redactor=ws.redactor)
    sessions = sorted((summary.session for summary in ws.store.list(Filter())), key=lambda session: session.id)
    random.Random(7).shuffle(sessions)
    chosen = [session for session in sessions if corpus_of(session, data) in corpora and only in session.id]
    for session in chosen[::sample]:
        messages = list(ws.store.messages(session.id))
        case = Case(corpus_of(session, data), session, messages, profiler.steps(session, messages))
        try:
            case.template = ws.templates.extract(session.id, name=f"template {session.id}", skip=lambda *_: None)
        except WarmstartError as error:
            case.refusal = f"{type(error).__name__}: {error}"
        for refused in extractor.items(session, messages).refused:  # type: ignore[attr-defined]
            case.refused.setdefault((refused.tool, refused.turn), refused.why)
        yield case


def everyone(ws: warmstart.Warmstart, data: Path = DATA) -> set[str]:
    """The distinctive values of all customers."""
    found: set[str] = set()
    for summary in ws.store.list(Filter()):
        if corpus_of(summary.session, data) in CUSTOMERS:
            found |= set(filter(is_distinctive, customer_values(ws.store.messages(summary.session.id))))
    return found


def offences(case: Case, customers: set[str], checks: Sequence[str] = NAMES) -> list[Offence]:
    """What is wrong with the template of a session."""
    found = []
    for name in checks:
        details = check_customers(case, customers) if name == "customers" else CHECKS[name](case)
        found += [Offence(name, case.session.id, detail) for detail in details]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Check the templates of real sessions.")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--keep", type=Path, help="a database to keep the import in")
    parser.add_argument("--sample", type=int, default=1, help="check every so many sessions (default: all)")
    parser.add_argument("--corpus", action="append", choices=CORPORA)
    parser.add_argument("--check", action="append", choices=NAMES)
    parser.add_argument("--session", default="", help="part of a session's id: print its template too")
    parser.add_argument("--show", type=int, default=5, help="offenders to print for each check")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with warmstart.open(args.keep or home / "store.db", home=home) as ws:
            run(ws, args)


def run(ws: warmstart.Warmstart, args: argparse.Namespace) -> None:
    began = time.perf_counter()
    import_data(ws, args.data)
    customers = everyone(ws, args.data)
    print(f"imported in {time.perf_counter() - began:.0f} s; {len(customers):,} values of customers")
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    wrong: defaultdict[tuple[str, str], list[Offence]] = defaultdict(list)
    began = time.perf_counter()
    cases = read_cases(ws, args.data, sample=args.sample, corpora=args.corpus or CORPORA, only=args.session)
    for case in cases:
        count(case, rows)
        reasons.update(case.refused.values())
        if args.session:
            show_template(case)
        for offence in offences(case, customers, args.check or NAMES):
            wrong[offence.check, case.corpus].append(offence)
    print(f"{rows['sessions'].total()} sessions checked in {time.perf_counter() - began:.0f} s\n")
    table(rows, wrong)
    print(f"\nrefused (tool and turn): {dict(reasons.most_common(12))}")
    for name in args.check or NAMES:
        found = [offence for corpus in CORPORA for offence in wrong[name, corpus]]
        sessions = {offence.session for offence in found}
        print(f"\n{name}: {len(found)} in {len(sessions)} sessions")
        for offence in found[: args.show]:
            print(f"  {offence.session}  {offence.detail[:400]}")


def count(case: Case, rows: dict[str, Counter[str]]) -> None:
    """Add a session to the rows of the table."""
    errors = list(recovered(case))
    calls = case.worked
    rows["sessions"][case.corpus] += 1
    rows["with a successful call"][case.corpus] += any(step.outcome == "ok" for step in case.steps)
    rows["templates"][case.corpus] += case.template is not None
    rows["examples that worked"][case.corpus] += len(case.good_examples)
    rows["- that are look-arounds"][case.corpus] += sum(
        is_look_around(example.tool_name, example.arguments) for example in case.single_examples
    )
    rows["successful calls"][case.corpus] += len(calls)
    rows["- that are look-arounds "][case.corpus] += sum(
        is_look_around(step.call.name, step.call.arguments) for step in calls
    )
    rows["errors with a later success"][case.corpus] += sum(step.recovery is not None for step in case.steps)
    rows["- mended by another form"][case.corpus] += len(errors)
    rows["- - shown"][case.corpus] += sum(is_among(*error, case) for error in errors)


def table(rows: dict[str, Counter[str]], wrong: dict[tuple[str, str], list[Offence]]) -> None:
    corpora = [corpus for corpus in CORPORA if rows["sessions"][corpus]]
    print(f"{'':<34}" + "".join(f"{corpus:>12}" for corpus in corpora))
    for row, numbers in rows.items():
        print(f"{row:<34}" + "".join(f"{numbers[corpus]:>12}" for corpus in corpora))
    for name in NAMES:
        sessions = [len({offence.session for offence in wrong.get((name, corpus), ())}) for corpus in corpora]
        print(f"{'sessions wrong: ' + name:<34}" + "".join(f"{number:>12}" for number in sessions))


def show_template(case: Case) -> None:
    print(f"--- {case.session.id} ({case.corpus}, {case.session.agent}): {case.refusal}")
    for example in case.examples:
        mark = "" if example.success else "FAILED "
        print(f"  {mark}{example.tool_name} {example.arguments[:300]}  ->  {example.result[:120]}")


if __name__ == "__main__":
    main()
