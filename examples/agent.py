"""An agent that starts warm, on any OpenAI-compatible endpoint. Each argument is one user turn.

OPENAI_BASE_URL=http://127.0.0.1:8080/v1 python examples/agent.py "Which port does the database use?"
"""

import json
import os
import shlex
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path

import warmstart

COMMANDS = ("ls", "wc", "grep", "pytest", "git status", "git log", "git diff")  # the tool may run only these
ABOUT = {"shell": f"Run one of: {', '.join(COMMANDS)}.", "read_file": "Read a file of the project by its path."}
SCHEMA = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
TOOLS = [{"type": "function", "function": {"name": n, "description": ABOUT[n], "parameters": SCHEMA}} for n in ABOUT]


def use_tool(name, arguments):
    text = json.loads(arguments)["input"]
    if name == "read_file" and Path(text).resolve().is_relative_to(Path.cwd()):
        return Path(text).read_text()[:20_000]
    words = shlex.split(text)
    if name != "shell" or not any(words[: len(some.split())] == some.split() for some in COMMANDS):
        return f"Error: not allowed. {ABOUT['shell']} {ABOUT['read_file']}"
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return f"{done.stdout}{done.stderr}\nExit code: {done.returncode}"[-20_000:]


def ask_model(messages):
    body = {"model": os.environ.get("OPENAI_MODEL", "default"), "messages": messages, "tools": TOOLS}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}
    url = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)["choices"][0]["message"]


def take_turn(run, history, text):
    overlay = run.before_turn(text)  # only for the requests of this turn, after everything a provider can cache
    shown = {"role": "user", "content": f"{text}\n\n{overlay}" if overlay else text}
    before, turn = list(history), [{"role": "user", "content": text}]
    run.record(turn[0])
    while True:
        reply = ask_model([*before, shown, *turn[1:]])
        turn.append(reply)
        run.record(reply)
        for call in reply.get("tool_calls") or ():
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            try:
                output = use_tool(name, arguments)
            except Exception as error:
                output = f"Error: {error}"
            run.record({"role": "tool", "tool_call_id": call["id"], "content": output})
            if fix := run.after_tool(name, arguments, output):  # what worked instead when this failed before
                output += f"\n{fix}"
            turn.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        if not reply.get("tool_calls"):
            history += turn
            return reply["content"]


def main(turns):
    start = [{"role": "system", "content": "You are a careful engineer. Look before you answer, and answer briefly."}]
    with warmstart.open() as ws, ws.begin(str(uuid.uuid4()), task=turns[0], messages=start, tools=TOOLS) as run:
        history = list(run.messages)  # includes what earlier sessions of this project taught
        for text in turns:
            print(take_turn(run, history, text), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
