from __future__ import annotations

import time

from warmstart.text import shell
from warmstart.text.shell import Command, is_scratch, parse_commands


def programs(text: str) -> list[str]:
    return [command.program for command in parse_commands(text)]


def only(text: str) -> Command:
    (command,) = parse_commands(text)
    return command


PROGRAMS = (
    ("cd src && pytest -q | tail -5", ["pytest", "tail"]),
    ("export A=1; A=2 go test ./...", ["go"]),
    ("bash -lc 'cd app && npm test'", ["npm"]),
    ("sudo -u web timeout 60 pytest", ["pytest"]),
    ("uv run --with pytest-xdist pytest -n 4", ["pytest"]),
    ("uv sync", ["uv"]),
    ("bundle exec rspec spec/a_spec.rb", ["rspec"]),
    ("bundle install", ["bundle"]),
    ("npx --yes jest", ["jest"]),
    ("git commit -m 'one; two && three'", ["git"]),
    ("# only a remark\n/usr/bin/make test", ["make"]),
    ("cat > run.sh <<'EOF'\npytest\nEOF\nmake test", ["cat", "make"]),
    ("python - <<PY\nimport os; os.remove('a')\nPY", ["python"]),
    ("[ -f x ] && cat x", ["cat"]),
    ("test -f x && cat x", ["cat"]),
    ("[[ -f x && 3 > 2 ]] || make", ["make"]),
    ("if [[ -d a ]]; then ls a; fi", ["ls"]),
    ("[[ -f x ]]", ["[["]),
    ("which pytest", ["which"]),
    ("command -v pytest && make", ["make"]),
    ("case $1 in\n  a|b) make test;;\n  *) ls | head ;;\nesac\ngit status", ["make", "ls", "head", "git"]),
    ("case $1 in a) ls;; esac", ["ls"]),
    ("grep case x; echo esac; (cd a; ls)", ["grep", "ls"]),
    ("", []),
    ("'never closed", ["never"]),
    ("time (A=1 ./tides help > /dev/null)", ["tides"]),
    ("sh -c \"sh -c 'make; ls'\" && git status", ["make", "ls", "git"]),
    ("f() { make; }; f", ["make", "f"]),
    ("for x in a b; do make $x; done", ["make"]),
    ("while read x; do make; done < a.txt", ["read", "make"]),
    ("cat <<EOF | grep x && make\nrm\nEOF\nls", ["cat", "grep", "make", "ls"]),
    ("gh pr edit --body $'it\\'s; `rm`'", ["gh"]),
    ("x=$(make test); echo $x", []),
    ("make test &&", ["make"]),
)
MASKED = (
    ("pytest", False),
    ("pytest | tail -3", True),
    ("set -o pipefail; pytest | tail -3", False),
    ("pytest || true", True),
    ("pytest || exit 1", False),
    ("pytest; echo done", True),
    ("set -e; pytest; echo done", False),
    ("pytest &", True),
    ("pytest && git push", False),
    ("pytest && echo good || echo bad", True),
    ("pytest && git log | head", False),
    ("if pytest; then echo good; fi", True),
)
WORDS = {
    "git commit -m 'one; two'": ("commit", "-m", "one; two"),
    "git commit -m \"$(cat <<'EOF'\nSubject\nEOF\n)\"": ("commit", "-m", "$(cat <<'EOF'\nSubject\nEOF\n)"),
    "make a\\ b \\\n  c": ("a b", "c"),
    "A=1 make B=2 'c'\"d\"": ("B=2", "cd"),
    "grep -r 'x' é": ("-r", "x", "é"),
    "wc -l < a.txt": ("-l",),
    "cat <<< text -": ("-",),
}
OUTPUTS = {
    "make > a.txt 2>&1": ("a.txt",),
    "make >> 'a b.txt'": ("a b.txt",),
    "make &> all.txt": ("all.txt",),
    "make 2> err.txt": (),
    "make | tee a.txt": (),
    "cat > f <<'EOF'\ntext > other\nEOF": ("f",),
    "{ make; } > a.txt": ("a.txt",),
    ">a.txt make": ("a.txt",),
    "echo text > /tmp/x; make": (),
}


def test_programs(subtests):
    for text, expected in PROGRAMS:
        with subtests.test(text):
            assert programs(text) == expected


def test_words_are_unquoted(subtests):
    for text, words in WORDS.items():
        with subtests.test(text):
            assert only(text).words == words


def test_outputs_are_the_files_that_are_written(subtests):
    for text, outputs in OUTPUTS.items():
        with subtests.test(text):
            assert parse_commands(text)[0].outputs == outputs


def test_words_after_an_output_belong_to_the_command():
    words = ("one", "two")
    assert only("printf > a.txt one two") == Command("printf", words, outputs=("a.txt",), argv=("printf", *words))


def test_masked_marks_commands_with_a_hidden_exit_code(subtests):
    for text, masked in MASKED:
        with subtests.test(text):
            assert next(command for command in parse_commands(text) if command.program == "pytest").masked is masked


def test_folder_is_that_of_the_last_cd():
    assert only("cd a && cd '/srv/b c' && make").folder == "/srv/b c"
    assert only("make").folder == ""


def test_scratch():
    assert all(map(is_scratch, ("/tmp/a", "/dev/null", "$TMPDIR/x", "test.log")))
    assert not any(map(is_scratch, ("a.txt", "src/tmp/a", "/home/mara/a")))


def test_long_commands_are_cut_and_not_cached():
    long = "echo " + "a" * 5_000 + "; make test"
    cached = shell._parse_cached.cache_info().currsize
    assert programs(long) == ["make"]
    assert shell._parse_cached.cache_info().currsize == cached
    assert programs("a" * shell.MAX_LENGTH + "; make test") == ["a" * shell.MAX_LENGTH]


def test_a_command_keeps_its_characters_of_any_script():
    commands = parse_commands("echo {\U00031860}; grep 'größe 漢' ñ.txt > ü.txt && É=1 make")
    assert [(command.program, command.words, command.outputs) for command in commands] == [
        ("grep", ("größe 漢", "ñ.txt"), ("ü.txt",)),
        ("É=1", ("make",), ()),
    ]


HOSTILE = {
    **{unit: unit * 200_000 for unit in ("sudo ", "<a>", "A=1 ", "env -u x ", "[[ ", "case ", "x;;", "cd a;", "if ")},
    **{unit: unit * 20_000 for unit in ("$(", "`", "(", "{ ", "a | ", "'", '"\\', "<<E\n", "\n", "f() {", "sh -c '")},
    "unclosed heredoc": "cat <<EOF\n" + "a line\n" * 20_000,
    "surrogate": "echo \ud800; make",
    "nul": "echo \0; make",
    "a character of a high plane": "cat {\U00031860\U000f3041",
}


def test_hostile_commands_are_parsed_quickly(subtests):
    for name, text in HOSTILE.items():
        with subtests.test(name):
            began = time.process_time()
            parse_commands(text)
            assert time.process_time() - began < 5
