"""No secret that was planted in a session is in a packet, its file, the log or the database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from string import ascii_letters, digits, hexdigits
from typing import Any

import warmstart

# How a secret of each kind looks; `{}` is what must not be found anywhere.
KINDS = {
    "ghp_{}": (36, ascii_letters + digits),
    "gho_{}": (36, ascii_letters + digits),
    "github_pat_11ABCDEFG0{}": (71, ascii_letters + digits),
    "glpat-{}": (20, ascii_letters + digits),
    "sk-ant-api03-{}AA": (93, ascii_letters + digits),
    "AKIA{}": (16, "ABCDEFGHJKMNPQRSTUVWXYZ234567"),
    "xoxb-123456789012-123456789012-{}": (24, ascii_letters + digits),
    "npm_{}": (36, ascii_letters + digits),
    "AIza{}": (35, ascii_letters + digits),
    "sk_live_{}": (24, ascii_letters + digits),
    "hf_{}": (34, ascii_letters),
    "dop_v1_{}": (64, "0123456789abcdef"),
    "shpat_{}": (32, "0123456789abcdef"),
    "SG.abcdefghijklmnopqrstuv.{}": (43, ascii_letters + digits),
    "glsa_{}_0a1b2c3d": (32, ascii_letters + digits),
    "postgres://gauge:{}@tides.example/db": (20, ascii_letters + digits),
    "password={}": (18, ascii_letters + digits),
    "Authorization: Bearer {}": (40, ascii_letters + digits),
    "aws_secret_access_key={}": (40, ascii_letters + digits),
    "API_TOKEN={}": (32, hexdigits.lower()[:16]),
}


def test_no_planted_secret_gets_out(tmp_path: Path) -> None:
    random, planted = Random(18), []
    with warmstart.open(tmp_path / "store.db", home=tmp_path / "warm") as ws:
        ws.settings = replace(ws.settings, handoff_enabled=True, handoff_after=1, handoff_mode="fresh_session")
        with ws.begin("s1", project=str(tmp_path)) as run:
            chat: list[Any] = []
            for number in range(200):
                form, (length, letters) = list(KINDS.items())[number % len(KINDS)]
                planted.append("".join(random.choices(letters, k=length)))
                secret = form.format(planted[-1])
                padding = "x" * random.randrange(140)  # some are cut in half where a command is shortened
                command = f"curl {padding} -H '{secret}' https://tides.example/{number}"
                call = {"id": f"c{number}", "function": {"name": "Bash", "arguments": f'{{"command": "{command}"}}'}}
                for message in (
                    {"role": "user", "content": f"Never print {secret} anywhere."},
                    {"role": "assistant", "content": "", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": f"c{number}", "content": f"error: {secret} is wrong"},
                ):
                    chat.append(message)
                    run.record(message)
                if number % 25 == 24:  # the constraints of all would not fit into one packet
                    packet = ws.handoffs.packet(run.session_id, note=secret)
                    outcome = run.fit(chat, budget_tokens=100)
                    fresh = (
                        outcome[:1] if run.handoff and run.handoff.child else []
                    )  # then follows what is to be answered
                    shown = packet.text + str(fresh)
                    assert not [one for one in planted if one in shown or one[:16] in shown]
    data = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(data) > 3
    assert not [one for one in planted for some in data if one.encode() in some]
