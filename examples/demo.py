"""Run the example agent with a scripted model in a project with history, and show what the model receives."""

import os
import subprocess
import tempfile
from pathlib import Path

import agent

import warmstart
from warmstart.testing.model import Reply, ScriptedModel

SAMPLES = Path(warmstart.__file__).parent / "samples"
TURNS = ("store the storm warnings in the database", "how did we store the surges last time?", "Never push to main.")


def main():
    with tempfile.TemporaryDirectory() as folder, ScriptedModel([Reply(text="Understood.", repeat=True)]) as model:
        project = Path(folder) / "tidewatch"
        for name in ("store", "surge", "cli", "gauges"):
            (project / "src/tidewatch" / name).with_suffix(".py").parent.mkdir(parents=True, exist_ok=True)
            (project / "src/tidewatch" / name).with_suffix(".py").touch()
        subprocess.run(["git", "init", "--quiet", str(project)], check=True)
        for log in SAMPLES.rglob("*.jsonl"):
            text = log.read_text().replace("/home/mara/tidewatch", str(project))
            (Path(folder) / log.name).write_text(text)
        home = Path(folder) / "home"
        home.mkdir()
        (home / "config.toml").write_text("[context_preflight]\ndeadline_ms = 1000\n")  # also on a busy machine
        os.environ |= {"OPENAI_BASE_URL": f"{model.url}/v1", "WARMSTART_AUTO_INJECT": "smart"}
        os.environ["WARMSTART_HOME"] = str(home)
        with warmstart.open() as ws:
            ws.sync([folder])
        os.chdir(project)
        agent.main(TURNS)
        for request, turn in zip(model.requests, TURNS, strict=True):
            messages = request.body["messages"]
            if turn == TURNS[0]:
                print("\nThe first request starts with:\n")
                print("\n\n".join(str(message["content"]) for message in messages[:-1]))
            print(f"\nand the user's message {turn!r} arrives as:\n\n{messages[-1]['content']}")
        with warmstart.open() as ws, ws.begin("after") as run:
            messages = [("user", turn, str(number)) for number, turn in enumerate(TURNS)]
            print(f"\nAfter a compaction the agent is reminded:\n\n{run.after_compaction(messages)}")


if __name__ == "__main__":
    main()
