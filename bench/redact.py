"""How much the redactor finds, how often it is wrong, and how fast it is.

Recall is by span: a secret counts as found when no six of its characters in a row survive. Where a case gives only a
text, any finding in it counts. Beside the figure over all positives stands one over what this redactor means by a
secret: the value of an assignment without its name, and not the cases whose "secret" is a word, an account number, a
UUID, a path or a row of x.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warmstart.redact.redactor import PERSONAL, Redactor

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# Rules of the data's own sources that test their machinery, or hold for secret what we leave alone on purpose.
NOT_SECRETS = {"example", "filter-comments", "no-homedir"}
NAME = re.compile(r"^[\w\"'.-]{1,40}[\"']?\s*(?::=|=>|=|:)\s*[\"']?(?=\S)")


def survivors(text: str, start: int, end: int, covered: bytearray) -> bool:
    """Whether six characters in a row of text[start:end] are in no finding."""
    return bytes(min(6, end - start)) in covered[start:end]


def spans(case: dict[str, Any]) -> Iterator[tuple[int, int]]:
    at = 0
    for secret in case["secrets"]:
        start = case["text"].find(secret, at)
        start = case["text"].find(secret) if start < 0 else start
        at = start + 1
        yield start, start + len(secret)


def is_meant(case: dict[str, Any], secret: str) -> bool:
    if case["rule"] in NOT_SECRETS or re.search(r"[xX]{4}|TXXXXX|ACCOUNT_ID|foo-bar|secret content", secret):
        return False
    return not re.search(r"(?:CLIENT|client|tenant)_(?:ID|id)|^aws_|^\"type\"", secret)


def recall(cases: list[dict[str, Any]]) -> tuple[int, int, int, int, list[str]]:
    plain, personal = Redactor(), Redactor(personal=PERSONAL)
    total = hits = meant = meant_hits = 0
    missed = []
    for case in cases:
        text = case["text"]
        covered = bytearray(len(text))
        for finding in (personal if case["rule"] == "no-homedir" else plain).find(text):
            covered[finding.start : finding.end] = b"\1" * (finding.end - finding.start)
        if case["secrets"] is None:
            places = [(0, len(text), any(covered))]
        else:
            places = [(start, end, not survivors(text, start, end, covered)) for start, end in spans(case)]
        for start, end, hit in places:
            total += 1
            hits += hit
            if not is_meant(case, text[start:end]):
                continue
            meant += 1
            name = NAME.match(text[start:end])
            value = start + (name.end() if name and case["secrets"] is not None else 0)
            found = hit or (case["secrets"] is not None and not survivors(text, value, end, covered))
            meant_hits += found
            if not found:
                missed.append(f"{case['rule']}: {text[start:end][:90]!r}")
    return total, hits, meant, meant_hits, missed


def false_alarms(sessions: Path) -> tuple[int, list[str], float, float]:
    """Findings in real sessions, with their surroundings, and the speed in MB/s."""
    import tempfile

    from warmstart.sessions.sqlite import SQLiteSessionStore
    from warmstart.sessions.sync import path_sources, sync

    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteSessionStore(Path(folder) / "store.db")
        sync(store, path_sources([sessions]), redact=False)
        messages = [message for row in store.list() for message in store.messages(row.session.id)]
        store.close()
    texts = [
        text
        for message in messages
        for text in (
            message.text,
            message.reasoning,
            *(call.arguments for call in message.tool_calls),
            *(result.text for result in message.tool_results),
        )
        if text
    ]
    redactor = Redactor()
    began = time.process_time()
    found = [(text, finding) for text in texts for finding in redactor.find(text)]
    seconds = time.process_time() - began
    shown = [
        f"{finding.kind}: {text[max(0, finding.start - 50) : finding.start]!r} >>> "
        f"{text[finding.start : finding.end][:60]!r} <<< {text[finding.end : finding.end + 20]!r}"
        for text, finding in found[:50]
    ]
    return len(messages), shown, len(found), sum(map(len, texts)) / 1e6 / seconds


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    path = DATA / "secrets" / "cases.jsonl.gz"
    if not path.is_file():
        print(f"bench/redact.py: no data at {DATA}; nothing measured")
        return
    with gzip.open(path, "rt", encoding="utf-8") as file:
        cases = [json.loads(line) for line in file]
    total, hits, meant, meant_hits, missed = recall([case for case in cases if case["kind"] == "pos"])
    negatives = [case for case in cases if case["kind"] == "neg"]
    flagged = sum(bool(Redactor().find(case["text"])) for case in negatives)
    messages, shown, alarms, speed = false_alarms(DATA / "sessions")
    for line in [*(f"missed   {each}" for each in missed), *(f"finding  {each}" for each in shown)]:
        print(line)
    print(f"{'spans found, all positives':40}  {hits}/{total}  {hits / total:.1%}")
    print(f"{'spans found, what we call secrets':40}  {meant_hits}/{meant}  {meant_hits / meant:.1%}  (at least 95 %)")
    print(f"{'hard negatives flagged':40}  {flagged}/{len(negatives)}  {flagged / len(negatives):.1%}  (below 10 %)")
    print(f"{'findings in real sessions':40}  {alarms} in {messages} messages  (each is shown above)")
    print(f"{'speed on one core':40}  {speed:.0f} MB/s  (at least 15)")


if __name__ == "__main__":
    main()
