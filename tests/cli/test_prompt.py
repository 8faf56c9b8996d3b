from __future__ import annotations

import json

from warmstart.preflight.prompt import TIERS


def test_prompt_show_prints_the_tiers_of_a_project(run, tmp_path, monkeypatch):
    project = tmp_path / "tidewatch"
    (project / ".git").mkdir(parents=True)
    (project / "CLAUDE.md").write_text("Use tabs.\n")
    skill = project / ".claude" / "skills" / "tides" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text('---\nname: tides\ndescription: "Read tide tables"\n---\nUse the almanac.\n')
    shown = run("prompt", "show", "--project", str(project))
    assert shown.code == 0
    assert "== preflight (" in shown.out
    assert "# CLAUDE.md\n\nUse tabs." in shown.out
    assert "- tides: Read tide tables" in shown.out
    assert "almanac" not in shown.out
    assert "in the cached prefix" in shown.err

    monkeypatch.chdir(project)
    monkeypatch.setenv("WARMSTART_PREFLIGHT", "off")
    tiers = json.loads(run("prompt", "show", "--json").out)["tiers"]
    assert tuple(tier["tier"] for tier in tiers) == TIERS
    assert [tier["tokens"] > 0 for tier in tiers] == [False, False, False, True, True, True]
    assert [tier["cached"] for tier in tiers] == [True] * 5 + [False]


def test_prompt_show_of_a_folder_without_anything(run, tmp_path):
    shown = run("prompt", "show", "--project", str(tmp_path))
    assert shown.code == 0
    assert "== context (0 tokens, cached)" in shown.out
