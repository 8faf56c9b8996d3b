"""What packets keep of real sessions, checked against the raw logs, and how fast ledger, packet and compaction are.

    python bench/handoff.py                        # all
    python bench/handoff.py --only constraints     # on labelled messages; the labels are hashes
    python bench/handoff.py --only fidelity -v     # with every disagreement

`raw_artifacts.py` reads the logs on its own. Run with `make bench`.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from raw_artifacts import Artifacts, artifacts_of
from warmstart.handoff.compact import STRATEGIES, compact, measure
from warmstart.handoff.constraints import find_constraints
from warmstart.handoff.ledger import build_ledger
from warmstart.handoff.packet import BUDGET, build_packet, verify
from warmstart.handoff.score import compare_summaries
from warmstart.redact.redactor import Redactor
from warmstart.sessions.export import chat_messages
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.store import Filter
from warmstart.sessions.sync import path_sources, sync
from warmstart.sessions.values import Message, Session

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "sessions"
LABELS = Path(__file__).with_name("constraint_labels.json")
MIN_MESSAGES = 100
_CHANGED = re.compile(r"^- (created|changed|deleted) (.+?) \(turn ", re.MULTILINE)
_READ = re.compile(r"^## Files read\n((?:- .+\n)+)", re.MULTILINE)


def packet_files(text: str, folder: str) -> Artifacts:
    """The files that a packet names, absolute."""

    def absolute(path: str) -> str:
        return path if path.startswith("~") else posixpath.normpath(posixpath.join(folder, path))

    found = Artifacts(folder)
    for operation, path in _CHANGED.findall(text):
        (found.deleted if operation == "deleted" else found.written).add(absolute(path))
    for block in _READ.findall(text):
        found.read.update(absolute(path) for line in block.splitlines() for path in line[2:].split(", "))
    return found


def sessions(store: SQLiteSessionStore) -> Iterator[tuple[Session, list[Message]]]:
    for row in store.list(Filter()):
        yield row.session, list(store.messages(row.id))


def fidelity(store: SQLiteSessionStore, *, verbose: bool) -> None:
    """Recall and precision of the files in packets, and whether constraints and the latest request are there."""
    redactor, counts = Redactor(), Counter[str]()
    for session, messages in sessions(store):
        if len(messages) <= MIN_MESSAGES:
            continue
        ledger = build_ledger(session, messages)
        packet = build_packet(ledger, redactor=redactor)
        again = build_packet(build_ledger(session, messages), redactor=redactor)
        truth, ours = artifacts_of(Path(session.source)), packet_files(packet.text, ledger.root)
        pairs = [("written", truth.written, ours.written), ("deleted", truth.deleted, ours.deleted)]
        pairs.append(("read only", truth.read - truth.written - truth.deleted, ours.read))
        for name, wanted, got in pairs:
            counts[f"{name}: found"] += len(wanted & got)
            counts[f"{name}: missed"] += len(wanted - got)
            counts[f"{name}: wrong"] += len(got - wanted)
            if verbose and wanted ^ got:
                print(session.id, name, "missed", sorted(wanted - got), "wrong", sorted(got - wanted))
        hits, missed, wrong = (sum(len(part) for part in some) for some in zip(*_parts(pairs), strict=True))
        counts["sessions with recall and precision of .98"] += hits >= 0.98 * (hits + max(missed, wrong))
        counts["sessions"] += 1
        counts["packets over the default budget"] += packet.tokens > BUDGET
        counts["not the same bytes twice"] += packet.text != again.text
        counts["not valid"] += verify(packet.text) != packet.id
        counts["constraints"] += len(ledger.constraints)
        counts["constraints missing"] += sum(one.text not in packet.text for one in ledger.constraints)
        counts["latest request missing"] += bool(
            ledger.requests and ledger.requests[-1].text.strip().split("\n")[0][:200] not in packet.text
        )
    for name, number in counts.items():
        print(f"{number:>6,}  {name}")
    print("Against the summaries of the agents at the same budget (constraints, files, commands):")
    for session, messages in sessions(store):
        for one in compare_summaries(session, messages, redactor=redactor):
            theirs, mine = (
                (kept.tokens, kept.constraints, kept.artifact_recall, kept.commands)
                for kept in (one.summary, one.packet)
            )
            print(f"  {session.id} #{one.message}: theirs {theirs}, ours {mine}")


def constraints(store: SQLiteSessionStore, *, verbose: bool) -> None:
    """Precision and recall on labelled messages: `first` before the code was written, `second` later."""
    groups: dict[str, dict[str, list[str]]] = json.loads(LABELS.read_text())
    texts = {_hash(one.text.strip()): one.text for _, messages in sessions(store) for one in messages if one.text}
    for group, labels in groups.items():
        hits = wrong = missed = 0
        for name in labels.keys() & texts.keys():
            found = {_hash(one.text): one.text for one in find_constraints(texts[name])}
            hits += len(found.keys() & labels[name])
            missed += len(labels[name] - found.keys())
            wrong += len(found.keys() - labels[name])
            if verbose and found.keys() - labels[name]:
                print("wrong:", *(found[one] for one in found.keys() - labels[name]), sep="\n  ")
        precision, recall = hits / max(1, hits + wrong), hits / max(1, hits + missed)
        print(
            f"{group} labels: {hits + missed} constraints in {len(labels.keys() & texts.keys())} messages, "
            f"precision {precision:.2f} (at least .85), recall {recall:.2f} (at least .90)"
        )


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


def _parts(pairs: list[tuple[str, set[str], set[str]]]) -> Iterator[tuple[set[str], set[str], set[str]]]:
    return ((wanted & got, wanted - got, got - wanted) for _, wanted, got in pairs)


def timings(store: SQLiteSessionStore) -> None:
    """Processor time, since others may use the machine."""
    redactor = Redactor()
    all_sessions = list(sessions(store))
    began = time.process_time()
    ledgers = [build_ledger(session, messages) for session, messages in all_sessions]
    spent, total = time.process_time() - began, sum(len(messages) for _, messages in all_sessions)
    print(f"ledger: {spent / total * 1e6:.0f} µs a message over {total:,} messages (at most 50)")
    times = []
    for ledger in ledgers:
        began = time.process_time()
        build_packet(ledger, redactor=redactor)
        times.append((time.process_time() - began) * 1000)
    print(f"packet: median {sorted(times)[len(times) // 2]:.0f} ms, slowest {max(times):.0f} ms (at most 200)")
    chat = [one for _, messages in all_sessions for one in chat_messages(messages)][:2000]
    size = sum(map(measure, chat))
    longest = max(ledgers, key=lambda one: one.messages)
    for name in STRATEGIES:
        began = time.process_time()
        compact(chat, budget_tokens=size // 4, strategy=name, session="s", ledger=longest, redactor=redactor)
        spent = (time.process_time() - began) * 1000
        print(f"compaction by {name}: {len(chat):,} messages in {spent:.0f} ms (at most 300)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", choices=("fidelity", "timings", "constraints"))
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, closing(SQLiteSessionStore(Path(folder) / "store.db")) as store:
        sync(store, path_sources([one for one in sorted(options.data.iterdir()) if one.is_dir()]))
        if options.only in (None, "fidelity"):
            fidelity(store, verbose=options.verbose)
        if options.only in (None, "constraints"):
            constraints(store, verbose=options.verbose)
        if options.only in (None, "timings"):
            timings(store)


if __name__ == "__main__":
    main()
