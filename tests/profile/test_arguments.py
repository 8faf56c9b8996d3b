"""Arguments as agents write them: the command, the file, and whatever is no JSON object."""

from __future__ import annotations

import json
import time

import pytest

from warmstart.profile.calls import command_in, fields_of, path_in

ODD = [
    "",
    "plain text",
    "{",
    '{"a": 1',
    "[1, 2]",
    "null",
    "3",
    '"text"',
    "{'a': 1}",
    '{"a": NaN}',
    '{"a": 1e999}',
    '{"a": "\ud800"}',
    '{"a":' * 50_000,
    "[" * 50_000,
]


def test_what_is_no_json_object_has_no_fields(subtests: pytest.Subtests) -> None:
    for arguments in ODD:
        with subtests.test(arguments=arguments):
            assert fields_of(arguments) == {}
            assert path_in(arguments) == ""
            assert isinstance(command_in(arguments), str)


THE_COMMAND = [
    ({"commands": ["cd src", "make"]}, "cd src\nmake"),
    ({"command": "make"}, "make"),
    ({"cmd": "make"}, "make"),
    ({"command": ["bash", "-lc", "cd src && make"]}, "cd src && make"),
    ({"command": ["/usr/bin/bash", "-c", "make"]}, "make"),
    ({"command": ["python", "-c", "print(1); exit()"]}, "python -c 'print(1); exit()'"),
    ({"command": ["git", "commit", "-m", "one && two"]}, "git commit -m 'one && two'"),
    ({"command": []}, ""),
    ({"command": ["ls", 3]}, ""),
    ({"command": 3, "script": "make"}, "make"),
    ({"path": "a.py"}, ""),
    ({}, ""),
    ("make test", "make test"),
    ("  ", "  "),
    ('{"command": "ma', ""),
    ('["make"]', ""),
]


def test_the_command(subtests: pytest.Subtests) -> None:
    for arguments, command in THE_COMMAND:
        with subtests.test(arguments=arguments, command=command):
            assert command_in(arguments if isinstance(arguments, str) else json.dumps(arguments)) == command


THE_FILE = ["file_path", "path", "filePath", "absolute_path", "notebook_path", "target_file"]


def test_the_file(subtests: pytest.Subtests) -> None:
    for name in THE_FILE:
        with subtests.test(name=name):
            assert path_in(json.dumps({"limit": 3, name: "src/tides.py"})) == "src/tides.py"
            assert path_in(json.dumps({name: ["src/tides.py"]})) == ""


def test_large_arguments_are_read_once_and_fast() -> None:
    large = json.dumps({"file_path": "a.py", "content": "x" * 1_000_000, "command": "y" * 1_000_000})
    began = time.process_time()
    for _ in range(50):
        assert path_in(large) == "a.py"
        assert len(command_in(large)) == 1_000_000
    assert time.process_time() - began < 2
