"""How much the redactor finds, how often it is wrong, and how fast it is.

A secret counts as found if no six consecutive characters of any occurrence survive. Generated secrets are counted by
kind and by context. Public test sets of secret scanners and real sessions are included if the data is available. Speed
is for one core.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from redact_cases import Case, hostile_units, positives, repeat
from warmstart.redact.redactor import PERSONAL, Redactor

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# Rules in the public test sets that test their own machinery, or treat as secret what we leave alone on purpose.
NOT_SECRETS = {"example", "filter-comments", "no-homedir"}
NAME = re.compile(r"^[\w\"'.-]{1,40}[\"']?\s*(?::=|=>|=|:)\s*[\"']?(?=\S)")
HOSTILE_LENGTH = 200_000


def is_found(text: str, secret: str, redactor: Redactor) -> bool:
    """Whether every occurrence of the secret is covered, except for fewer than six consecutive characters."""
    covered = bytearray(len(text))
    for finding in redactor.find(text):
        covered[finding.start : finding.end] = b"\1" * (finding.end - finding.start)
    places = [found.start() for found in re.finditer(re.escape(secret), text)]
    return all(bytes(min(6, len(secret))) not in covered[at : at + len(secret)] for at in places)


def print_generated(cases: Iterable[Case]) -> None:
    redactor = Redactor()
    hits, totals = (Counter[tuple[str, str]](), Counter[tuple[str, str]]())
    for case in cases:
        hit = is_found(case.text, case.secret, redactor)
        for key in (("kind", case.kind), ("place", case.place), ("all", "generated")):
            hits[key] += hit
            totals[key] += 1
    for by, name in sorted(totals):
        print(f"  {by + ' ' + name:38}  {hits[by, name]}/{totals[by, name]}  {hits[by, name] / totals[by, name]:.1%}")


def is_meant(case: dict[str, Any], secret: str) -> bool:
    if case["rule"] in NOT_SECRETS or re.search(r"[xX]{4}|TXXXXX|ACCOUNT_ID|foo-bar|secret content", secret):
        return False
    return not re.search(r"(?:CLIENT|client|tenant)_(?:ID|id)|^aws_|^\"type\"", secret)


def published(cases: list[dict[str, Any]]) -> Iterator[tuple[bool, str]]:
    """Whether each secret in the public test sets is found; if a case has only a text, any finding counts."""
    redactor = Redactor()
    for case in cases:
        for secret in case["secrets"] or [case["text"]]:
            if not is_meant(case, secret):
                continue
            name = NAME.match(secret)
            if case["secrets"] is None:
                hit = bool(redactor.find(case["text"]))
            else:
                hit = is_found(case["text"], secret[name.end() :] if name else secret, redactor)
            yield hit, f"{case['rule']}: {secret[:90]!r}"


def session_texts() -> list[str]:
    from warmstart.sessions.sql_store import SQLiteSessionStore
    from warmstart.sessions.sync import path_sources, sync

    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteSessionStore(Path(folder) / "store.db")
        sync(store, path_sources([DATA / "sessions", DATA / "history"]), redact=False)
        messages = [message for row in store.list() for message in store.messages(row.session.id)]
        store.close()
    return [
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


def print_sessions() -> None:
    texts = session_texts()
    redactor = Redactor()
    redactor.find(" ".join(texts[:100]))
    began = time.process_time()
    found = [(text, finding) for text in texts for finding in redactor.find(text)]
    seconds = time.process_time() - began
    for text, finding in found:
        before, secret = text[max(0, finding.start - 50) : finding.start], text[finding.start : finding.end]
        print(f"finding  {finding.kind}: {before!r} >>> {secret[:60]!r}")
    print(f"{'findings in real sessions':40}  {len(found)} in {len(texts)} texts  (all shown above)")
    print(f"{'speed on ordinary text':40}  {sum(map(len, texts)) / 1e6 / seconds:.0f} MB/s  (at least 30)")


def print_hostile() -> None:
    redactor = Redactor(personal=PERSONAL)
    speeds = []
    for name, unit in hostile_units():
        redactor.redact(unit * 20)
        text = repeat(unit, HOSTILE_LENGTH)
        began = time.process_time()
        redactor.redact(text)
        speeds.append((time.process_time() - began, len(text.encode()), name))
    slowest, name = min((size / 1e6 / seconds, name) for seconds, size, name in speeds)
    speed = sum(size for _, size, _ in speeds) / 1e6 / sum(seconds for seconds, _, _ in speeds)
    print(f"{'speed on hostile text':40}  {speed:.1f} MB/s over {len(speeds)} texts  (at least 5)")
    print(f"{'slowest of them':40}  {slowest:.1f} MB/s  {name}")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print_generated(positives())
    path = DATA / "secrets" / "cases.jsonl.gz"
    if path.is_file():
        with gzip.open(path, "rt", encoding="utf-8") as file:
            cases = [json.loads(line) for line in file]
        results = list(published([case for case in cases if case["kind"] == "pos"]))
        for hit, secret in results:
            if not hit:
                print(f"missed   {secret}")
        hits = sum(hit for hit, _ in results)
        negatives = [case["text"] for case in cases if case["kind"] == "neg"]
        flagged = sum(bool(Redactor().find(text)) for text in negatives)
        print(f"{'secrets in public test sets':40}  {hits}/{len(results)}  {hits / len(results):.1%}")
        print(f"{'hard negatives flagged':40}  {flagged}/{len(negatives)}  {flagged / len(negatives):.1%}")
        print_sessions()
    else:
        print(f"no data at {DATA}: public test sets and sessions are not measured")
    print_hostile()


if __name__ == "__main__":
    main()
