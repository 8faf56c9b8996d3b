"""What a shell command is for: whether it checks, commits, edits or reads."""

from __future__ import annotations

import warmstart.profile.tools as shell
from warmstart.text.shell import Command, parse_commands

CHECKS = (
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
)
COMMITS = (
    ("git commit -am 'a'", True),
    ("git -C ../other commit --amend --no-edit", True),
    ("git commit --dry-run", False),
    ("git log --grep commit", False),
    ("gh pr view", False),
)
EDITS = (
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
    ("[[ 3 > 2 ]] && ls", False),
)


def only(text: str) -> Command:
    (command,) = parse_commands(text)
    return command


def test_checks(subtests):
    for text, check in CHECKS:
        with subtests.test(text):
            assert shell.check_of(only(text)) == check


def test_commits(subtests):
    for text, commits in COMMITS:
        with subtests.test(text):
            assert shell.commits(only(text)) is commits


def test_edits(subtests):
    for text, edits in EDITS:
        with subtests.test(text):
            assert any(shell.edits(command) for command in parse_commands(text)) is edits


def test_the_files_that_a_command_shows():
    assert shell.reads(only("sed -n 1,20p src/a.py")) == ("src/a.py",)
    assert shell.reads(only("head -n 20 a.txt b.txt")) == ("a.txt", "b.txt")
    assert shell.reads(only("sed -i s/a/b/ a.txt")) == ()


def test_a_predicate_is_not_code(subtests):
    for text in ("[ -f x ] && cat x", "test -f x && cat x", "which x", "type x", "[[ -f x ]] && ls", "command -v x"):
        with subtests.test(text):
            assert shell.kind_of(text) == "file"
            assert shell.kind_of(f"{text}; make") == "code"


def test_where_a_command_works():
    assert shell.folder_of(only("git -C ../other commit -m a")) == "../other"
    assert shell.folder_of(only("cd a && git commit -m a")) == "a"
    assert shell.folder_of(only("git commit -m a")) == ""
