"""The documentation is complete and up to date, and its examples run."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple, get_args

import click
import pytest

import warmstart
from tests.commands import run_line, tree
from warmstart.cli import main
from warmstart.cli.commands import root
from warmstart.config import HOME_VARIABLE, SETTINGS
from warmstart.sessions import export, values
from warmstart.sessions.readers.registry import readers

SOURCE = Path(warmstart.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"\$ (pip|uv tool|pipx) install ")
# How a module names an environment variable: env["NAME"], env.get("NAME"), os.environ["NAME"].
VARIABLE = re.compile(r"""env(?:iron)?(?:\.get\(|\[)\s*"([A-Z][A-Z0-9_]+)\"""")


class Example(NamedTuple):
    page: Path
    text: str


def examples(language: str) -> list[Example]:
    return [
        Example(page, text)
        for page in PAGES
        for found, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if found == language
    ]


def agents_variables() -> set[str]:
    return {
        name
        for path in (SOURCE / "sessions" / "readers").rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }


@pytest.fixture(scope="session")
def filled(tmp_path_factory) -> Path:
    """A Warmstart home with the samples imported."""
    kept = tmp_path_factory.mktemp("filled") / "kept"
    subprocess.run(
        [sys.executable, "-c", "from warmstart.cli import main; main()", "sync", "--path", SOURCE / "samples"],
        env={**os.environ, HOME_VARIABLE: str(kept), "WARMSTART_STORE": ""},
        capture_output=True,
        check=True,
    )
    return kept


@pytest.fixture
def fresh(filled, tmp_path):
    """Switches to a new home with the samples in its store, for one of many examples."""

    @contextmanager
    def move():
        home = Path(mkdtemp(dir=tmp_path))
        shutil.copytree(filled, home / ".warmstart")
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("HOME", str(home))
            patched.chdir(home)
            yield home

    return move


# -- complete


def test_every_command_and_option_is_documented():
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for name, command in tree(root, ("warmstart",)):
        context = click.Context(command)
        for parameter in command.params:
            is_option = isinstance(parameter, click.Option)
            for word in parameter.opts if is_option else [parameter.make_metavar(context)]:
                assert word in sections[name], f"{name} {word}"


def test_commands_md_is_up_to_date():
    page = runpy.run_path(str(DOCS / "generate.py"))["page"]
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_setting_and_variable_is_documented():
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    for setting in SETTINGS:
        variable = f"`{setting.variable}` " if setting.variable else ""
        assert f"| `{setting.key}` | {variable}|" in page
    assert f"`{HOME_VARIABLE}`" in page


def test_every_agents_variable_is_documented_in_both_places():
    assert {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "HERMES_HOME"} <= agents_variables()
    for page in ("configuration.md", "sessions.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        assert {name for name in agents_variables() if f"`{name}`" not in text} == set(), page


def test_no_variable_is_named_that_is_not_documented():
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    source = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    named = {*VARIABLE.findall(source), *re.findall(r"\bWARMSTART_[A-Z_]+", source)}
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_every_agent_is_documented_with_its_places():
    page = (DOCS / "sessions.md").read_text(encoding="utf-8")
    for agent, reader in readers().items():
        row = re.findall(rf"^\| `{agent}` \|.*$", page, re.MULTILINE)[0]
        for place in reader.roots({}, Path("~")):
            assert f"`{place}`" in row


def test_every_word_that_values_use_is_explained():
    page = (DOCS / "sessions.md").read_text(encoding="utf-8")
    for words in (values.Role, values.CallOutcome, values.SessionOutcome, values.ParentKind, export.Format):
        assert {word for word in get_args(words) if f"`{word}`" not in page} == set()


def test_links_lead_somewhere(subtests):
    for page in [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]:
        for link in LINK.findall(page.read_text(encoding="utf-8")):
            if link.startswith(("https://", "http://", "mailto:")):
                continue
            with subtests.test(page.name, link=link):
                target, _, heading = link.partition("#")
                path = page.parent / target if target else page
                assert path.exists()
                if heading:
                    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
                    assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_every_page_can_be_reached_from_the_readme():
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= linked


def test_the_changelog_has_a_section_for_what_is_coming():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased\n\n(?:### .+\n)?- ", text, re.MULTILINE)


# -- true


def test_python_examples_run(fresh, subtests):
    assert len(examples("python")) > 5
    for example in examples("python"):
        with subtests.test(example.page.name, text=example.text), fresh() as home:
            path = home / "test_example.py"
            path.write_text(example.text, encoding="utf-8")
            is_test = "import pytest" in example.text
            options = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "error"]
            ran = subprocess.run(
                [sys.executable, *(options if is_test else []), path],
                env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
                capture_output=True,
                text=True,
                check=False,
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            assert " passed" in ran.stdout if is_test else ran.stdout


def test_console_examples_run(fresh, capsys, subtests):
    """The examples of a page run in order."""
    assert len(examples("console")) > 5
    for page in PAGES:
        with subtests.test(page.name), fresh():
            for example in examples("console"):
                for line in example.text.splitlines():
                    if example.page == page and line.startswith("$ ") and not INSTALL.match(line):
                        code, said = run_line(line.removeprefix("$ "), capsys)
                        assert code == 0, f"{line}: {said}"


def test_the_readme_shows_what_its_command_prints(fresh, capsys):
    (shown,) = [example.text for example in examples("text") if example.page.name == "README.md"]
    with fresh():
        main(["brief", "--project", "/home/mara/tidewatch"])
    assert shown.strip() in capsys.readouterr().out


def test_every_command_line_in_the_text_is_one_that_exists():
    names = {name for name, _ in tree(root, ("warmstart",))}
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"):
        for line in re.findall(r"`(warmstart [a-z][^`]*)`", page.read_text(encoding="utf-8")):
            words = line.split()
            assert {" ".join(words[:2]), " ".join(words[:3])} & names, f"{page.name}: {line}"
