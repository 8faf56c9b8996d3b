"""What a shell command does: the programs in it, whether it checks, commits, edits, and whose exit code is seen."""

from __future__ import annotations

import time

import pytest

from warmstart.profile import shell


def programs(text: str) -> list[str]:
    return [command.program for command in shell.commands(text)]


def only(text: str) -> shell.Command:
    (command,) = shell.commands(text)
    return command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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
        ("'never closed", ["never closed"]),
    ],
)
def test_the_programs_in_a_command(text: str, expected: list[str]) -> None:
    assert programs(text) == expected


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("pytest tests/test_a.py", "test"),
        ("python3.12 -m pytest", "test"),
        ("python -m unittest discover", "test"),
        ("coverage run -m pytest", "test"),
        ("go test ./...", "test"),
        ("cargo nextest run", "test"),
        ("mise run test:ci", "test"),
        ("npm --prefix web run test", "test"),
        ("yarn workspace web test", "test"),
        ("pnpm --filter web run build", "build"),
        ("./gradlew :app:testDebugUnitTest", "test"),
        ("mvn -q clean install", "build"),
        ("mvn verify", "test"),
        ("docker compose exec -T app pytest", "test"),
        ("docker build .", "build"),
        ("bash scripts/run_tests.sh", "test"),
        ("node --test", "test"),
        ("php artisan test", "test"),
        ("make", "build"),
        ("make -j 4", "build"),
        ("make ci", "test"),
        ("cargo check", "build"),
        ("tsc --noEmit", "build"),
        ("npm run lint:check", "lint"),
        ("ruff check .", "lint"),
        ("npm ci", ""),
        ("npm install jest", ""),
        ("go get example.org/test", ""),
        ("go run ./cmd/test", ""),
        ("python /tmp/test_idea.py", ""),
        ("python -c 'import a.test'", ""),
        ("pytest --version", ""),
        ("gcc --version", ""),
        ("git status", ""),
        ("test -f a.txt", ""),
    ],
)
def test_checks(text: str, check: str) -> None:
    assert shell.check_of(only(text)) == check


@pytest.mark.parametrize(
    ("text", "masked"),
    [
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
    ],
)
def test_whether_the_exit_code_tells_of_the_check(text: str, masked: bool) -> None:
    (check,) = [command for command in shell.commands(text) if shell.check_of(command)]
    assert check.masked is masked


@pytest.mark.parametrize(
    ("text", "commits"),
    [
        ("git commit -am 'a'", True),
        ("git -C ../other commit --amend --no-edit", True),
        ("git commit --dry-run", False),
        ("git log --grep commit", False),
        ("gh pr view", False),
    ],
)
def test_commits(text: str, commits: bool) -> None:
    assert shell.commits(only(text)) is commits


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        ("sed -i 's/a/b/' a.txt", True),
        ("sed -i.bak 's/a/b/' a.txt", True),
        ("sed --in-place s/a/b/ a.txt", True),
        ("sed -n '1,20p' a.txt", False),
        ("perl -pi -e s/a/b/ a.txt", True),
        ("perl -Mstrict -e 'print 1'", False),
        ("echo a > a.txt", True),
        ("echo a >> a.txt", True),
        ("echo a > /tmp/a.txt", False),
        ("echo a > /dev/null", False),
        ("ls 2> a.txt", False),
        ("pytest > test.log", False),
        ("rm src/a.py", True),
        ("rm -rf /tmp/a /private/tmp/b", False),
        ("cp /tmp/new.py src/a.py", True),
        ("cp src/a.py /tmp/a.py", False),
        ("mv src/a.py /tmp/a.py", True),
        ("apply_patch <<'EOF'\n*** Begin Patch\nEOF", True),
        ("git checkout -- src/a.py", True),
        ("git checkout main", False),
        ("git reset --hard HEAD~1", True),
        ("git reset a.py", False),
        ("git apply --check a.patch", False),
        ("git apply a.patch", True),
        ("cat a.txt", False),
    ],
)
def test_edits(text: str, edits: bool) -> None:
    assert any(shell.edits(command) for command in shell.commands(text)) is edits


def test_the_files_that_a_command_shows() -> None:
    assert shell.reads(only("sed -n 1,20p src/a.py")) == ("src/a.py",)
    assert shell.reads(only("head -n 20 a.txt b.txt")) == ("a.txt", "b.txt")
    assert shell.reads(only("sed -i s/a/b/ a.txt")) == ()


@pytest.mark.parametrize(
    "text", ["[ -f x ] && cat x", "test -f x && cat x", "which x", "type x", "[[ -f x ]] && ls", "command -v x"]
)
def test_to_ask_whether_something_is_there_is_no_code(text: str) -> None:
    assert shell.kind_of(text) == "file"
    assert shell.kind_of(f"{text}; make") == "code"
    assert not any(shell.edits(command) for command in shell.commands("[[ 3 > 2 ]] && ls"))


def test_where_a_command_works() -> None:
    assert shell.folder_of(only("git -C ../other commit -m a")) == "../other"
    assert shell.folder_of(only("cd a && cd '/srv/b c' && git commit -m a")) == "/srv/b c"
    assert shell.folder_of(only("git commit -m a")) == ""


def test_long_commands_are_not_kept_in_memory() -> None:
    long = "echo " + "a" * 5_000 + "; make test"
    kept = [shell._remembered.cache_info().currsize, shell._remembered_check.cache_info().currsize]
    assert programs(long) == ["make"]
    assert shell.check_of(shell.Command("pytest", ("a" * 5_000,))) == "test"
    assert [shell._remembered.cache_info().currsize, shell._remembered_check.cache_info().currsize] == kept
    assert programs("a" * shell.LONGEST + "; make test") == ["a" * shell.LONGEST]


@pytest.mark.parametrize("unit", ["sudo ", "<a>", "A=1 ", "env -u x ", "[[ ", "case ", "x;;", "cd a;", "if "])
def test_a_long_command_is_read_in_one_pass(unit: str) -> None:
    began = time.process_time()
    shell.commands(unit * 200_000)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "text",
    ["cat <<EOF\n" + "a line\n" * 20_000, "'" * 50_000, "$(" * 20_000, "a | " * 20_000, "\n" * 100_000, '"\\' * 40_000],
)
def test_half_a_command_costs_no_more_than_a_whole_one(text: str) -> None:
    began = time.process_time()
    shell.commands(text)
    assert time.process_time() - began < 2
