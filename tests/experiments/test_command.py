"""`warmstart experiment` on files: what it prints, and what it refuses."""

from __future__ import annotations

import csv
import json
import os
import re

import pytest

from warmstart.cli import main
from warmstart.cli.experiment import isolated_home

KEYS = ["difference", "se", "ci_low", "ci_high", "p", "n_units", "method", "icc", "deff", "mde", "verdict"]


@pytest.fixture
def run(capsys, home):
    def call(*arguments):
        try:
            main(["experiment", *map(str, arguments)])
            code = 0
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def trial(tmp_path):
    """The Physicians' Health Study: heart attacks with placebo and with aspirin."""
    path = tmp_path / "aspirin.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("group", "attack"))
        for arm, cases, n in (("placebo", 189, 11_034), ("aspirin", 104, 11_037)):
            writer.writerows((arm, int(number < cases)) for number in range(n))
    return path


def test_json_has_the_documented_keys(run, trial):
    code, out, _ = run("analyze", trial, "--arm", "group", "--outcome", "attack", "--json")
    found = json.loads(out)
    assert code == 0
    assert list(found)[: len(KEYS)] == KEYS
    # Placebo minus aspirin: .0077, with a 95 % interval from .0047 to .0108 and z = 5.0.
    assert found["difference"] == pytest.approx(0.0077, abs=5e-5)
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((0.0047, 0.0108), abs=5e-5)
    assert found["p"] == pytest.approx(5.7e-7, rel=0.05)
    assert (found["n_units"], found["deff"], found["icc"]) == (22_071, 1.0, None)


def test_a_named_baseline_and_direction(run, trial):
    options = ("--arm", "group", "--outcome", "attack", "--baseline-arm", "placebo", "--lower-is-better")
    code, out, _ = run("analyze", trial, *options)
    assert code == 0
    assert out.startswith(
        "HELPS. aspirin helps: 0.8 points better than placebo (95 % interval: 0.5 to 1.1 points better)."
    )
    assert "two-proportion z-test" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--arm", "nothing"), "no column 'nothing'"),
        (("--arm", "group", "--outcome", "group"), "which is not a number"),
        (("--arm", "group", "--outcome", "attack", "--baseline-arm", "tea"), "no arm 'tea'"),
    ],
)
def test_what_cannot_be_analysed_is_refused_in_one_line(run, trial, options, message):
    code, out, err = run("analyze", trial, *options)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_the_report_on_a_file_is_its_analysis(run, trial):
    options = (trial, "--arm", "group", "--outcome", "attack", "--lower-is-better")
    assert run("report", *options) == run("analyze", *options)
    assert run("report", *options, "--json") == run("analyze", *options, "--json")


def test_the_report_on_a_file_is_a_page(run, trial, tmp_path):
    """With the sections that its rows can fill, and no others."""
    page = tmp_path / "page.html"
    options = ("--arm", "group", "--outcome", "attack", "--lower-is-better", "--html", page)
    assert run("report", trial, *options) == (0, "", f"Report on 22,071 rows written to {page}.\n")
    text = page.read_text()
    assert "placebo harms: 0.8 points worse than aspirin (95 % interval: 0.5 to 1.1 points worse)." in text
    assert "attack; lower is better" in text
    assert 'download="aspirin-comparisons.csv" href="data:text/csv;base64,' in text
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["Does it help?", "Difference from aspirin"]
    run("report", trial, *options, "--sequential")
    assert "placebo over time" in page.read_text()


def test_the_page_of_a_paired_file_shows_its_pairs(run, tmp_path):
    file, page = tmp_path / "night.csv", tmp_path / "page.html"
    hours = {"ann": (0.7, 1.9), "bob": (-1.6, 0.8), "cid": (-0.2, 1.1)}
    rows = [f"{name},{arm},{value}" for name, values in hours.items() for arm, value in zip("ab", values, strict=True)]
    file.write_text("\n".join(["patient,arm,outcome", *rows, "dan,a,3.4"]))
    assert run("report", file, "--paired-by", "patient", "--html", page)[0] == 0
    text = page.read_text()
    assert "Pair by pair" in text
    assert "ann: a 0.7, b 1.9" in text
    assert "1 of 4 pairs are in one arm only and were left out." in text


def test_a_metric_names_the_column_of_a_file_and_its_direction(run, tmp_path):
    file = tmp_path / "results.csv"
    file.write_text(
        "arm,error_count,diversity\n" + "".join(f"{'ab'[n % 2]},{9 - n % 5 - n % 2},{n}\n" for n in range(40))
    )
    found = json.loads(run("analyze", file, "--metric", "error_count", "--json")[1])
    assert (found["difference"], found["lower_is_better"]) == (-1.0, True)
    found = json.loads(run("analyze", file, "--metric", "diversity", "--json")[1])
    assert (found["difference"], found["lower_is_better"]) == (1.0, False)


def test_an_unknown_experiment(run):
    code, _, err = run("analyze", "nothing")
    assert code == 1
    assert "there is no experiment 'nothing'" in err


def test_a_new_file_is_valid_and_never_overwritten(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new", "warm-vs-cold")[0] == 0
    assert 'name = "warm-vs-cold"' in (tmp_path / "warm-vs-cold.toml").read_text()
    code, _, err = run("new", "warm-vs-cold")
    assert (code, "already exists" in err) == (1, True)
    assert run("new", "Warm vs cold")[0] == 1


def test_power(run):
    code, out, _ = run("power", "--baseline", 0.09, "--effect", 0.033, "--icc", 0.1, "--calls", 30)
    assert (code, out.split()[0]) == (0, "128")
    assert run("power", "--baseline", 0.02, "--effect", 0.033)[0] == 1
    found = json.loads(run("power", "--sessions", 30, "--json")[1])
    assert found["power"] == pytest.approx(0.39, abs=0.01)


def test_an_isolated_home_is_undone_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/mara")
    monkeypatch.delenv("WARMSTART_DISABLED", raising=False)
    monkeypatch.setenv("SET_BY_A_LIBRARY", "before")
    with isolated_home(tmp_path):
        assert (os.environ["HOME"], os.environ["WARMSTART_DISABLED"]) == (str(tmp_path), "1")
        os.environ["SET_BY_A_LIBRARY"] = "inside"
    assert os.environ["HOME"] == "/home/mara"
    assert "WARMSTART_DISABLED" not in os.environ
    assert os.environ["SET_BY_A_LIBRARY"] == "inside"
