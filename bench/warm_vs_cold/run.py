"""Does a warm start help a real model? The whole experiment, from the model to the table of results.

    pip install 'warmstart[experiments]' xllamacpp
    python bench/warm_vs_cold/run.py --folder FOLDER                # stage 1; about 80 minutes
    python bench/warm_vs_cold/run.py --folder FOLDER --stage 2      # the parts of a start
    python bench/warm_vs_cold/run.py --folder FOLDER --table        # only print the table
    python bench/warm_vs_cold/run.py --folder OTHER --scripted --limit 12   # a dry run without the model

A prompt starts with about 900 tokens of tools. With one thread on a dedicated core, a cold session takes 25 s and a
warm one 40 s. Run it again to continue after an interruption.
FOLDER holds the model (1.1 GB), the store and Inspect's logs.
`--results FILE` also writes the table to a file, and `--commit` commits it after every 20 tasks.

1. Cold sessions on the 16 source tasks, recorded by Warmstart.
2. A template extracted from those that succeeded, and a placebo template from unrelated work.
3. The 44 evaluation tasks, which share no request with the source. Stage 1 has the arms cold, placebo (as long as the
   template), and brief with template (three examples). Stage 2 has brief alone, one example, three examples,
   and traps alone.

The context of 4,096 tokens limits all arms: a start may take 1,200. The table goes into
docs/research/warm-vs-cold.md, with the stages that ran, the traces of three sessions, and the verdict, whatever it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import model  # noqa: E402

import warmstart  # noqa: E402
from warmstart.cli.experiment import isolated_home  # noqa: E402
from warmstart.errors import ExperimentError, NothingToCarry  # noqa: E402
from warmstart.experiments.design import Design, parse_design  # noqa: E402
from warmstart.experiments.lab import load_task, run_lab  # noqa: E402
from warmstart.experiments.results import evaluate  # noqa: E402

PORT = 8137
STAGES = {1: ("cold", "placebo", "brief-template"), 2: ("brief", "examples-1", "examples-3", "traps")}
DESIGN = """\
name = "warm-vs-cold"
tasks = "tasks.py@evaluation"
model = "openai-api/local/qwen"
model_args = {{base_url = "{address}/v1", api_key = "none"}}
metric = "success"
smallest_effect = 0.1
seed = 20261117
template = "office"
placebo = "travel"
project = "{project}"
power = {{baseline = 0.4, effect = 0.2, calls = 1}}

[arms.cold]
[arms.placebo]
start = ["placebo"]
[arms.brief-template]
start = ["brief", "template"]
[arms.brief]
start = ["brief"]
[arms.examples-1]
start = ["examples"]
examples = 1
[arms.examples-3]
start = ["examples"]
examples = 3
[arms.traps]
start = ["traps"]
"""
# Unrelated work with other tools, as long as the office sessions.
TRAVEL = [
    (
        "Find a room in Porto for two nights.",
        [("search_rooms", {"city": "porto", "nights": 2}), ("book_room", {"room": "R-118"})],
    ),
    (
        "Book a table for four at eight.",
        [("list_tables", {"seats": 4}), ("book_table", {"table": "T-7", "time": "20:00"})],
    ),
    (
        "Is there a museum that is open on Monday?",
        [("search_places", {"kind": "museum"}), ("get_place", {"place": "P-31"})],
    ),
    (
        "Move my flight to the evening.",
        [("get_flight", {"flight": "F-902"}), ("update_flight", {"flight": "F-902", "slot": "evening"})],
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--stage", type=int, choices=STAGES, default=1)
    parser.add_argument("--arms", nargs="+", help="only these arms of the stage")
    parser.add_argument("--limit", type=int, default=0, help="maximum number of sessions to run now")
    parser.add_argument("--scripted", action="store_true", help="use a scripted model instead of the real one")
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--commit", action="store_true")
    options = parser.parse_args()
    folder = options.folder.resolve()
    arms = tuple(options.arms or STAGES[options.stage])
    project = folder / "office"
    (project / ".git").mkdir(parents=True, exist_ok=True)
    with warmstart.open(home=folder / "home") as ws:
        if options.table:
            print(table(ws))
            return
        with served(folder, scripted=options.scripted) as address:
            text = DESIGN.format(address=address, project=project)
            design = parse_design(text)
            run_source(design, folder, project, limit=options.limit)
            make_templates(ws, folder)
            ws.experiments.save(text)
            began = time.monotonic()

            def progress(done: int, total: int) -> None:
                pace = (time.monotonic() - began) / done
                print(
                    f"{done} of {total} sessions, {pace:.0f} s each, {pace * (total - done) / 60:.0f} min left",
                    flush=True,
                )
                if options.results and done % len(arms) == 0:
                    options.results.write_text(table(ws) + "\n", encoding="utf-8")
                    if options.commit and done % (20 * len(arms)) == 0:
                        commit(options.results)

            notes = run_lab(
                ws,
                ws.experiments,
                design,
                folder=HERE,
                logs=folder / "logs",
                isolate=isolated_home,
                limit=options.limit,
                only=arms,
                progress=progress,
            )
        print(*notes, sep="\n")
        print(table(ws))
        if options.results:
            options.results.write_text(table(ws) + "\n", encoding="utf-8")


@contextmanager
def served(folder: Path, *, scripted: bool) -> Iterator[str]:
    """The address of the model. The port is part of the design, so it is always the same."""
    if scripted:
        from scripted import scripted_model

        with scripted_model(PORT) as address:
            yield address
    else:
        with model.serving(model.get_model(folder / "model"), PORT) as address:
            yield address


def run_source(design: Design, folder: Path, project: Path, *, limit: int) -> None:
    """Run the source tasks cold; those that already have a log are skipped."""
    from inspect_ai import eval as evaluate_task
    from inspect_ai import task_with
    from inspect_ai.model import get_model

    task = load_task("tasks.py@source", HERE)
    samples = list(task.dataset)
    for sample in samples[: limit or None]:
        logs = folder / "source" / str(sample.id)
        if list(logs.glob("*.eval")):
            continue
        began = time.monotonic()
        with isolated_home(folder / "nobody"):
            (log,) = evaluate_task(
                task_with(task, dataset=[sample]),
                model=get_model(design.model, **design.model_args),
                log_dir=str(logs),
                metadata={"project": str(project)},
                display="none",
            )
        if log.status != "success":
            raise SystemExit(f"{sample.id}: {log.error.message if log.error else log.status}")
        print(f"source {sample.id}: {time.monotonic() - began:.0f} s", flush=True)


def make_templates(ws: warmstart.Warmstart, folder: Path) -> None:
    """Make the template from the source sessions that succeeded, and the placebo."""
    if {template.name for template in ws.templates.list(project=None)} >= {"office", "travel"}:
        return
    ws.sync([folder / "source"])
    won = [each.id for each in ws.sessions.list(project=None, outcome="success") if each.session.agent == "inspect"]
    print(f"{len(won)} source sessions succeeded")
    if not won:
        raise NothingToCarry("no source session succeeded, so there is nothing to start from")
    ws.templates.extract(*won, name="office")
    path = folder / "travel.json"
    path.write_text(json.dumps([travel_session(number, *each) for number, each in enumerate(TRAVEL)]), encoding="utf-8")
    ws.sync([path], format="openai")
    others = [each.id for each in ws.sessions.list(project=None, outcome="success") if each.session.agent == "openai"]
    ws.templates.extract(*others, name="travel")


def travel_session(number: int, request: str, calls: list[tuple[str, dict[str, object]]]) -> dict[str, object]:
    messages: list[dict[str, object]] = [{"role": "user", "content": request}]
    for place, (name, arguments) in enumerate(calls):
        call = {
            "id": f"t{number}-{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
    messages.append({"role": "assistant", "content": "Done."})
    return {"task_id": number, "trial": 0, "reward": 1.0, "traj": messages}


def table(ws: warmstart.Warmstart) -> str:
    """The numbers of each arm, compared with the cold start task by task."""
    try:
        results = evaluate(ws.experiments, "warm-vs-cold")
    except ExperimentError as error:
        return str(error)
    cold = results.primary[0].baseline
    lines = [
        "| arm | tasks | success | difference [95 %] | p (Holm) | error rate | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| {cold.name} | {cold.units} | {cold.mean:.0%} | | | {error_rate(results, cold.name)} | |",
    ]
    for each in results.primary:
        interval = f"{each.difference:+.2f} [{each.ci_low:+.2f}, {each.ci_high:+.2f}]"
        arm = each.treatment
        numbers = f"{arm.units} | {arm.mean:.0%} | {interval} | {each.p_adjusted:.3f} | {error_rate(results, arm.name)}"
        lines.append(f"| {arm.name} | {numbers} | {each.verdict} |")
    return "\n".join(lines)


def error_rate(results: object, arm: str) -> str:
    measured = [trial.measures["errors"] for trial in results.trials if trial.arm == arm and "errors" in trial.measures]
    return f"{sum(each[0] for each in measured) / sum(each[1] for each in measured):.0%}" if measured else "-"


def commit(path: Path) -> None:
    subprocess.run(["git", "add", str(path)], check=True)
    subprocess.run(
        ["git", "commit", "--quiet", "-m", "Update the results of warm against cold", "--", str(path)], check=False
    )


if __name__ == "__main__":
    main()
