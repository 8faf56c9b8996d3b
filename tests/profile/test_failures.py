from __future__ import annotations

from warmstart.profile.failures import HIDDEN_FAILURES, has_failed, runs_command

FAILED = [
    "<untrusted_context>\nOutput: oops\nExit Code: 3\nProcess Group PGID: 7\n</untrusted_context>",
    "Exit code 1\nnpm",
    "error: no such command",
    '{"output": "", "exit_code": 2}',
    "x" * 9000 + "\n<shellId: 1 completed with exit code 3>",
]
WORKED = [
    "",
    "14 passed",
    "ok: shows an error",
    "exit code 0",
    '{"exit_code": 0}',
    "x" * 3000 + "exit code 1" + "y" * 3000,
]
RUNS = [
    ("npm run test", "npm run test"),
    ("npm run test | tail -5", "npm run test"),
    ("cd web && CI=1 timeout 60 npm --silent run test", "npm run test"),
    ("(make lint)", "make lint"),
    ("/usr/bin/make lint; echo done", "make lint"),
    ("ls\n! make lint", "make lint"),
]
RUNS_NOT = [
    ("npm run test:unit", "npm run test"),
    ("rtk bun run test", "bun run test"),
    ("echo 'npm run test'", "npm run test"),
    ("git commit -m make", "make"),
    ("npm test", "npm run test"),
]


def test_a_failure_is_told_by_its_output(subtests) -> None:
    for output in (*FAILED, *HIDDEN_FAILURES):
        with subtests.test(output=output):
            assert has_failed(output)
    for output in WORKED:
        with subtests.test(output=output[:40]):
            assert not has_failed(output)


def test_a_script_runs_a_command(subtests) -> None:
    for script, command in RUNS:
        with subtests.test(script=script):
            assert runs_command(script, command)
    for script, command in RUNS_NOT:
        with subtests.test(script=script):
            assert not runs_command(script, command)
