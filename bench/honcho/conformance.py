"""Run the conformance suite of memory backends on a real Honcho server.

    python bench/honcho/conformance.py http://127.0.0.1:8000 --key KEY

Every case gets a workspace of its own, a mirror in a temporary folder, and a patient read timeout. Afterwards writes
are delivered, a second machine synchronizes, and both must agree. Prints failures and exits with 1 if there were any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.memory.suite import cases

from warmstart.memory.honcho import HonchoBackend
from warmstart.memory.honcho.link import Timeouts
from warmstart.testing.memory import USER

PATIENT = Timeouts(read=10.0, write=30.0, connect=30.0)


def open_backend(options: argparse.Namespace, workspace: str, folder: str) -> HonchoBackend:
    return HonchoBackend(
        base_url=options.url,
        api_key=options.key,
        workspace=workspace,
        path=Path(folder),
        timeouts=PATIENT,
        fresh_seconds=0.0,
        settle_seconds=1.0,
    )


def agree(options: argparse.Namespace, workspace: str, backend: HonchoBackend, folder: str) -> None:
    """Deliver everything, read it on another machine, and compare what was to be sent."""
    assert backend.flush(60), backend.status()
    assert not backend.status().rejected, backend.status()
    with closing(open_backend(options, workspace, folder)) as other:
        assert other.sync(USER, 60), other.status()
        entries = [record.entry for record in backend.dump(USER)]
        sent = {entry.key: entry.value for entry in entries if not backend.stays_local(entry.metadata)}
        assert {record.entry.key: record.entry.value for record in other.dump(USER)} == sent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the address of the server, such as http://127.0.0.1:8000")
    parser.add_argument("--key", default="", help="its API key, if it needs one")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    options = parser.parse_args()
    failed = passed = skipped = 0
    for name, case in cases():
        if options.only not in name:
            continue
        workspace = f"warmstart-conformance-{uuid4().hex[:12]}"
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
            try:
                with closing(open_backend(options, workspace, here)) as backend:
                    case(backend)
                    if "closed" not in name:
                        agree(options, workspace, backend, there)
                passed += 1
            except pytest.skip.Exception:
                skipped += 1
            except BaseException as error:
                failed += 1
                print(f"FAILED {name}: {type(error).__name__}: {error}")
                traceback.print_exc(limit=-3)
                if isinstance(error, KeyboardInterrupt):
                    break
    print(f"{passed} passed, {failed} failed, {skipped} skipped on {options.url}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
