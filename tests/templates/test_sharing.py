from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.templates.made import FIRST, item, seed, template
from warmstart.errors import InvalidTemplate, WarmstartError
from warmstart.templates.item import EDIT, Source, ToolCallExample
from warmstart.templates.rendering import render
from warmstart.templates.revoke import revoke
from warmstart.templates.sharing import export, export_text, import_file, read_file
from warmstart.templates.store import SQLTemplateStore, content_hash
from warmstart.templates.template import WarmTemplate
from warmstart.templates.validation import problems


def good(**fields: object) -> WarmTemplate:
    """A template that breaks no rule."""
    made = template(**fields)
    assert problems(made) == []
    return made


def test_a_file_is_plain_json_that_people_can_read(tmp_path: Path) -> None:
    export(good(), tmp_path / "shop.json")
    text = (tmp_path / "shop.json").read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    file = json.loads(text)
    assert (file["format"], file["format_version"]) == ("warmstart-template", 3)
    assert len(file["content_hash"]) == 32
    shown = next(one for one in file["template"]["items"] if one["kind"] == "example")
    assert shown["calls"][1] == ["shell", "python -m pytest -q tests/test_cart.py", "4 passed", True, 0]
    assert file["template"]["sources"] == [*template().sources]


def test_a_file_says_nothing_of_the_machine_and_its_people() -> None:
    rule = item("instruction", "Use tabs.", sources=(Source(f"{EDIT}mara"),))
    text = export_text(good(project="/home/mara/work/shop", seed=seed(instruction=(rule,))))
    assert json.loads(text)["template"]["project"] == "shop"
    assert "mara" not in text
    assert "/home" not in text


def test_a_secret_does_not_leave() -> None:
    secret = "sk-ant-api03-" + "Ab3" * 31 + "xAA"
    rule = item("instruction", f"The key is {secret}.")
    assert secret not in export_text(template(seed=seed(instruction=(rule,))))


def test_what_only_our_user_may_run_is_not_shared(store: SQLTemplateStore, tmp_path: Path) -> None:
    own = item("command", "./scripts/deploy.sh production", tool="run", worked=1)
    trap = item(
        "trap",
        "no such file",
        tool="./go.sh",
        calls=(ToolCallExample("shell", "./go.sh"), ToolCallExample("shell", "make test")),
    )
    saved = store.add(good(seed=seed(command=(own, *seed().of("command")), trap=(trap, *seed().of("trap")))))
    export(saved, tmp_path / "shop.json")
    assert read_file(tmp_path / "shop.json").seed == seed()
    assert import_file(store, tmp_path / "shop.json") == saved


@pytest.mark.parametrize("renderer", ["messages", "system", "xml"])
def test_export_delete_and_import_give_the_same_rendering(
    store: SQLTemplateStore, tmp_path: Path, renderer: str
) -> None:
    saved = store.add(good())
    before = render(saved, renderer=renderer).messages  # type: ignore[arg-type]
    export(saved, tmp_path / "shop.json")
    store.delete(saved.id)
    again = import_file(store, tmp_path / "shop.json")
    assert render(store.get(again.id), renderer=renderer).messages == before  # type: ignore[arg-type]
    assert content_hash(again) == content_hash(saved)
    assert json.dumps(before)  # is not empty
    assert before


def test_what_is_imported_is_quarantined_and_known_by_its_origin(store: SQLTemplateStore, tmp_path: Path) -> None:
    saved = store.add(good())
    export(saved, tmp_path / "shop.json")
    store.delete(saved.id)
    again = import_file(store, tmp_path / "shop.json")
    assert again.state == "quarantined"
    assert again.origin == f"imported from shop.json, where it was {saved.id}"
    assert again.id != saved.id
    assert again.sources == saved.sources
    assert store.get(again.id) == again


def test_the_same_file_twice_is_one_template(store: SQLTemplateStore, tmp_path: Path) -> None:
    export(good(), tmp_path / "shop.json")
    first = import_file(store, tmp_path / "shop.json")
    assert import_file(store, tmp_path / "shop.json") == first
    assert len(store.list()) == 1


def test_a_template_of_the_store_is_not_made_twice_by_its_own_file(store: SQLTemplateStore, tmp_path: Path) -> None:
    saved = store.add(good())
    export(saved, tmp_path / "shop.json")
    assert import_file(store, tmp_path / "shop.json") == saved
    assert saved.state == "active"


def test_a_file_is_not_written_over_unless_asked(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    path.write_text("mine")
    with pytest.raises(WarmstartError, match="already exists"):
        export(good(), path)
    assert path.read_text() == "mine"
    export(good(), path, overwrite=True)
    assert read_file(path).name == "shop"
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["shop.json"]


@pytest.mark.parametrize("place", ["missing/shop.json", "folder", "a\0b"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(WarmstartError, match=r"cannot be written|already exists") as caught:
        export(good(), tmp_path / place)
    assert "\n" not in str(caught.value)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == []


def test_what_was_revoked_does_not_come_back(store: SQLTemplateStore, tmp_path: Path) -> None:
    export(good(), tmp_path / "shop.json")
    revoke(store, FIRST)
    with pytest.raises(InvalidTemplate, match="revoked"):
        import_file(store, tmp_path / "shop.json")
    assert store.list() == []


def test_a_name_with_a_path_in_it_is_a_name(store: SQLTemplateStore, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    odd = good(name="../../etc/passwd", tags=("/etc/shadow", "..\\..\\x"))
    export(odd, tmp_path / "here" / "odd.json")
    before = {each.name for each in tmp_path.iterdir() if not each.name.startswith("store.db")}
    assert import_file(store, tmp_path / "here" / "odd.json").name == "../../etc/passwd"
    assert {each.name for each in tmp_path.iterdir() if not each.name.startswith("store.db")} == before


def test_the_name_of_a_file_cannot_forge_an_origin(tmp_path: Path) -> None:
    path = tmp_path / "a\u202e[warmstart]\n.json"
    export(good(), path)
    origin = read_file(path).origin
    assert origin.startswith("imported from a?")
    assert "\u202e" not in origin
    assert "[warmstart]" not in origin
    assert "\n" not in origin


_words = st.text(st.characters(categories=["Ll", "Lu", "Nd", "Zs"], max_codepoint=0x24F), min_size=1, max_size=40)


@given(
    name=_words.filter(str.strip), description=_words, text=_words.filter(str.strip), tags=st.lists(_words, max_size=3)
)
def test_what_is_exported_is_read_back(tmp_path: Path, name: str, description: str, text: str, tags: list[str]) -> None:
    rule = item("instruction", text)
    made = template(name=name, description=description, tags=tuple(tags), seed=seed(instruction=(rule,)))
    export(made, tmp_path / "x.json", overwrite=True)
    if problems(made):
        with pytest.raises(InvalidTemplate):
            read_file(tmp_path / "x.json")
    else:
        again = read_file(tmp_path / "x.json")
        assert content_hash(again) == content_hash(made)
        assert replace(again, project=made.project, state=made.state, origin=made.origin) == made
