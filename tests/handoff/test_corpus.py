"""Packets of real sessions, judged by the raw logs."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))  # the benchmarks import each other by name

from handoff import MIN_MESSAGES, packet_files, sessions
from raw_artifacts import artifacts_of
from warmstart.handoff.ledger import build_ledger
from warmstart.handoff.packet import BUDGET, build_packet
from warmstart.redact.redactor import Redactor
from warmstart.sessions.sql_store import SQLiteSessionStore
from warmstart.sessions.sync import path_sources, sync


@pytest.mark.corpus
def test_packets_keep_files_constraints_and_the_latest_request(
    corpus: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    with closing(SQLiteSessionStore(tmp_path / "store.db")) as store:
        sync(store, path_sources([one for one in sorted((corpus / "sessions").iterdir()) if one.is_dir()]))
        for session, messages in sessions(store):
            if len(messages) <= MIN_MESSAGES:
                continue
            with subtests.test(session.id):
                ledger = build_ledger(session, messages)
                packet = build_packet(ledger, redactor=Redactor())
                wanted, named = artifacts_of(Path(session.source)), packet_files(packet.text, ledger.root)
                assert packet.tokens <= BUDGET
                assert all(one.text in packet.text for one in ledger.constraints)
                assert not ledger.requests or ledger.requests[-1].text.split("\n")[0][:200] in packet.text
                assert len(wanted.files & named.files) >= 0.98 * max(len(wanted.files), len(named.files))
                assert wanted.written == named.written
                assert wanted.deleted == named.deleted
