"""The report of a store: which sweeps and trials it draws, what it writes and prints, and its exit codes.

Results are made up and committed to a real store; nothing is trained.
"""

import csv
import dataclasses
import json
import re
import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

from sweeper.report import app
from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.trial.trial_spec import trial_id
from tests import filled_stores, results
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow

PANELS = """
panels:
  - kind: curve
    name: average
    x: {column: q, scale: log}
    y: {label: Success (%), percent: true}
    where: {task: coloring, vertices: 5}
    metric: success
    tail: success_p5
    series:
      - {label: $A_R$, color: blue, where: {baseline: Aq_R}}
      - {label: $A_R$-majority, color: lime, metric: majority_30, where: {baseline: Aq_R}}
    published:
      - {series: $A_R$, metric: success, source: a made-up paper, values: {3: 0.8, 1e1: 0.9}}
  - kind: histogram
    name: inputs
    metric: success
    split: q
"""
SPACE = "trial:\n  anything: goes, since only the panels are read\n" + PANELS


def result(success=0.5, **changes):
    metrics, per_input = {"success": success, "success_p5": success / 2}, np.float32([0, success, success, 1])
    return results.result(changes, metrics=metrics, curves=[], outcomes={"success": per_input}, timings={})


def swept(store, *results, text=SPACE, **planned):
    filled_stores.swept(store, *results, text=text, **planned)


def run(tmp_path, *arguments):
    outcome = CliRunner().invoke(app, ["--results", str(tmp_path / "results"), *map(str, arguments)])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome.exit_code, outcome.output


def comparison(folder):
    with (folder / "comparison.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_recorded_sweeps_are_drawn_from_their_own_trials_and_compared_in_two_files(local, tmp_path):
    local.commit(result(0.1, seed=2))
    swept(local, result(0.7, seed=0), result(0.8, seed=1))
    code, output = run(tmp_path, "--compare")
    folder = tmp_path / "results" / "figures"
    assert code == 0
    assert {path.name for path in (folder / "ours").iterdir()} == {
        f"{name}.{suffix}" for name in ("average", "inputs") for suffix in ("png", "pdf")
    }
    measured, missing = comparison(folder)
    assert [measured[key] for key in ("sweep", "panel", "series", "at")] == ["ours", "average", "A_R", "3.0"]
    assert float(measured["measured"]) == 0.75
    assert np.isclose(float(measured["difference"]), -0.05)
    assert (measured["seeds"], measured["steps"]) == ("2", "250")
    assert (missing["measured"], missing["difference"], missing["seeds"]) == ("", "", "0")
    assert "75.0 %" in output
    assert "-5.0 points" in output
    assert "2 published numbers, 1 of them not measured yet" in output
    assert "ours: average: A_R-majority: 'majority_30' was not measured" in output

    text = (folder / "comparison.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert " ".join(rows[0]) == "sweep panel series metric at published measured difference seeds steps"
    assert rows[2] == ["ours", "average", "A_R", "success", "3", "80.0 %", "75.0 %", "-5.0 points", "2", "250"]
    assert rows[3] == ["ours", "average", "A_R", "success", "10", "90.0 %", "-", "", "0", ""]
    assert len(rows) == 4
    assert "1 of 1 percentages lie within 5 points." in text


def test_without_compare_one_line_says_what_there_is_to_compare(local, tmp_path):
    swept(local, result(0.7))
    code, output = run(tmp_path)
    assert code == 0
    assert "2 published numbers, 1 of them not measured yet; --compare" in output
    assert "75.0 %" not in output
    assert not list((tmp_path / "results" / "figures").glob("comparison.*"))


def test_panels_of_two_sweeps_that_share_a_figure_are_drawn_side_by_side(local, tmp_path):
    for name in ("left", "right"):
        panels = f"""
panels:
  - {{kind: histogram, name: {name}, figure: both, metric: success, split: q}}
  - {{kind: histogram, name: alone, figure: namesake, metric: success, split: q}}
"""
        swept(local, result(0.7), name=name, text=panels)
    code, output = run(tmp_path)
    folder = tmp_path / "results" / "figures"
    assert code == 0
    assert {path.name for path in folder.iterdir()} == {"left", "right", "figure-both.png", "figure-both.pdf"}
    assert "figure-both.png" in output


def test_the_report_prints_what_the_trials_advise(local, tmp_path):
    swept(local, result(0.5, objective={"q": 3.0, "m": 2}), result(0.504, objective={"q": 3.0, "m": 4}))
    output = run(tmp_path)[1]
    assert "How many seeds m a training step needs" in output
    assert "How many votes" not in output


def test_only_the_latest_start_of_a_sweep_counts(local, tmp_path):
    first, second = result(0.2, seed=0), result(0.6, seed=1)
    swept(local, first)
    swept(local, second)
    assert run(tmp_path, "--compare")[0] == 0
    assert comparison(tmp_path / "results" / "figures")[0]["measured"] == "0.6"


def test_overrides_of_the_command_line_reach_the_panels(local, tmp_path):
    swept(local, result(), overrides=("panels[0].name=renamed",))
    assert run(tmp_path)[0] == 0
    assert (tmp_path / "results" / "figures" / "ours" / "renamed.png").exists()


def test_sweeps_can_be_chosen_and_written_elsewhere(local, tmp_path):
    swept(local, result(0.4, seed=0), name="one")
    swept(local, result(0.6, seed=1), name="other")
    assert run(tmp_path, "--sweep", "other", "--out", tmp_path / "here")[0] == 0
    assert [path.name for path in (tmp_path / "here").iterdir() if path.is_dir()] == ["other"]


def space_of(tmp_path, **changes):
    trial = json.loads(coloring_trial(**changes).model_dump_json())
    space = tmp_path / "space.yaml"
    space.write_text(f"trial: {json.dumps(trial)}\n" + PANELS)
    return space


def test_a_space_is_drawn_from_the_trials_that_it_plans(local, tmp_path):
    for seed, success in enumerate((0.4, 0.6)):
        local.commit(result(success, seed=seed))
    code, output = run(tmp_path, "--compare", "--space", space_of(tmp_path))
    (measured, _) = comparison(tmp_path / "results" / "figures")
    assert code == 0
    assert (measured["sweep"], measured["measured"], measured["seeds"]) == ("space", "0.4", "1")
    assert "none of its trials" not in output


def test_a_space_whose_trials_were_shortened_is_drawn_from_those(local, tmp_path):
    for seed, success in enumerate((0.4, 0.6)):
        local.commit(result(success, seed=seed))
    space = space_of(tmp_path, steps=9)
    code, output = run(tmp_path, "--compare", "--space", space)
    assert code == 0
    assert comparison(tmp_path / "results" / "figures")[0]["seeds"] == "2"
    assert "space: none of its trials is finished; drawn from every trial of the store" in output
    swept(local, result(0.6, seed=1), name="space")
    output = run(tmp_path, "--compare", "--space", space)[1]
    assert comparison(tmp_path / "results" / "figures")[0]["measured"] == "0.6"
    assert "space: none of its trials is finished; drawn from those of earlier starts of this name" in output


def test_planned_trials_alone_are_drawn_and_the_command_for_the_others_is_named(local, tmp_path):
    for seed, success in enumerate((0.4, 0.6)):
        local.commit(result(success, seed=seed))
    short, whole = space_of(tmp_path, steps=9), tmp_path / "whole.yaml"
    command = f"python -m sweeper.run {short} --results {tmp_path / 'results'}"
    code, output = run(tmp_path, "--planned", "--space", short)
    assert code == 1
    assert f"space: 1 of 1 trial not run yet; no average, inputs: {command}" in output
    assert "no trial is finished" not in output
    whole.write_text(space_of(tmp_path).read_text())
    code, output = run(tmp_path, "--planned", "--space", whole)
    assert (code, "not run yet" in output) == (0, False)


def test_a_new_space_of_a_dozen_lines_gets_its_own_figures_without_code(local, tmp_path):
    space = tmp_path / "width.yaml"
    space.write_text(
        textwrap.dedent("""
        name: width
        trial:
          task: {name: coloring, vertices: 5}
          model: {name: transformer, width: {choice: [4, 8]}, key_size: 4}
          baseline: Aq_R
          objective: {q: {choice: [1, 3]}, m: 2}
          steps: 100
          seed: {seeds: 2}
        panels:
          - {kind: curve, name: by width, x: width, metric: success, tail: success_p5, split: q}
          - {kind: histogram, name: inputs, metric: success, split: width}
          - {kind: cost, name: cost, x: width, split: q}
        """)
    )
    for trial in search_space.read(space).expand().trials:
        one = result(0.5)
        local.commit(dataclasses.replace(one, trial=trial, timings={"wall_seconds": 1.0, "peak_memory_bytes": 2**20}))
    code, _ = run(tmp_path, "--space", space)
    drawn = {path.stem for path in (tmp_path / "results" / "figures" / "width").glob("*.png")}
    assert code == 0
    assert drawn == {"by width", "inputs", "cost wall time", "cost memory", "figure-cost"}


def test_nothing_to_draw_is_an_exit_code_of_its_own(local, tmp_path):
    local.commit(result())
    swept(local, missing=[trial_id(result(seed=9).trial)])
    code, output = run(tmp_path, "--compare")
    assert code == 1
    assert "nothing to draw" in output
    assert "ours: average, inputs: no trial is finished\n" in output, "what all panels lack is said once"
    assert comparison(tmp_path / "results" / "figures")[0]["measured"] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "our"], "no sweep 'our'; did you mean 'ours'?"),
        (["--sweep", "bare"], "no panels are declared in bare"),
        (["--sweep", "broken"], "the panels recorded with sweep 'broken' cannot be read"),
        (["--space", "nowhere.yaml"], "nowhere.yaml"),
        (["--out", "~nosuchuser/report"], "names the home of a user that this machine does not know"),
        (["--html=~nosuchuser/page.html"], "names the home of a user that this machine does not know"),
    ],
)
def test_what_cannot_be_read_is_said(local, tmp_path, arguments, message):
    swept(local, result())
    swept(local, result(), name="bare", text="trial: {}\n")
    swept(local, result(), name="broken", text="panels:\n  - {kind: curve}\n")
    code, output = run(tmp_path, *arguments)
    assert code == 2
    assert message in re.sub(r"[│\s]+", " ", output)


@pytest.mark.parametrize(
    "text",
    [
        "panels:\n  - {kind: curve}\n",
        "panels: 3\n",
        "- a list\n",
        "",
        "a: [\n",
        # Legal one by one, and no trial of it is: a halving is expanded to tell its winners.
        "trial:\n  task: {name: coloring, vertices: 5}\n  model: {name: transformer, width: 4}\n  baseline: Aq_R\n"
        "  steps: 250\n  evaluation: {seeds: {choice: [30, 1]}, votes: {choice: [[9], [1]]}}\n"
        "search: {method: halving, starts: 2, rungs: [{steps: 100, keep: 1}]}\n",
    ],
    ids=["no panel", "no list", "list", "nothing", "no YAML", "no trials"],
)
def test_a_sweep_that_cannot_be_read_costs_no_other_sweep_its_figures(local, tmp_path, text):
    swept(local, result())
    swept(local, result(), name="strange", text=text)
    code, output = run(tmp_path)
    assert code == 0, output
    assert "figure: " in output
    assert ("the panels recorded with sweep 'strange' cannot be read" in output) == ("panels" in text or "[\n" in text)


def test_a_store_that_cannot_be_written_to_names_the_option(local, tmp_path):
    swept(local, result())
    (tmp_path / "results" / "figures").write_text("a file in the way")
    code, output = run(tmp_path, "--html", tmp_path / "page.html")
    assert code == 2
    assert "figures cannot be written to; name another folder with --out" in output


def test_nothing_to_report_is_one_clear_line(tmp_path):
    code, output = run(tmp_path)
    assert code == 2
    assert "no results store" in output
    (tmp_path / "results").mkdir()
    for arguments in ([], ["--html", tmp_path / "page.html"], ["--space", space_of(tmp_path)]):
        code, output = run(tmp_path, *arguments)
        assert code == 2
        assert output.strip() == f"{tmp_path / 'results'} holds no trial and no sweep: there is nothing to report yet"
    assert not list((tmp_path / "results").iterdir())


def test_figures_and_page_read_the_rows_once(local, tmp_path, monkeypatch):
    swept(local, result(0.7))
    reads = []
    monkeypatch.setattr(Store, "trials", lambda self, *ids, read=Store.trials: reads.append(ids) or read(self, *ids))
    assert run(tmp_path, "--html", tmp_path / "page.html")[0] == 0
    assert reads == [()]


def test_a_table_that_fails_is_a_note_of_the_report(local, tmp_path, monkeypatch):
    swept(local, *[result(0.5, objective={"q": 3.0, "m": m}) for m in (2, 4)])
    monkeypatch.setattr("sweeper.analysis.advice.votes_of_networks", _broken)
    code, output = run(tmp_path, "--html", tmp_path / "page.html")
    note = "This table could not be made: ValueError: nonsense"
    assert code == 0
    assert f"How many votes each network needs: {note}\\x1b[2J" in output
    assert "How many seeds m a training step needs" in output
    assert note in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("method", ["__init__", "paint", "remarks", "compare", "alternative"])
def test_whatever_fails_of_a_panel_is_a_note_and_the_other_panels_stay(local, tmp_path, monkeypatch, method):
    swept(local, *[result(0.5, objective={"q": 3.0, "m": m}) for m in (2, 4)])
    monkeypatch.setattr(f"sweeper.analysis.figures.curves.Curves.{method}", _broken)
    code, output = run(tmp_path, "--html", tmp_path / "page.html")
    assert (code, "figure:" in output) == (0, True)
    assert "ValueError: nonsense" in (tmp_path / "page.html").read_text()
    drawn = method == "alternative"
    assert ("could not be drawn: ValueError: nonsense\\x1b[2J" in output) != drawn


def _broken(*arguments):
    raise ValueError("nonsense\x1b[2J")


def test_stopped_trials_are_counted_and_left_out(local, tmp_path):
    swept(local, result(0.5), dataclasses.replace(result(0.1, seed=1), status="stopped"))
    _, output = run(tmp_path, "--compare")
    assert "stopped early: 1 trial of the store; only finished trials are in figures and averages" in output
    assert comparison(tmp_path / "results" / "figures")[0]["measured"] == "0.5"


def test_text_of_a_store_cannot_command_the_terminal(local, tmp_path):
    red = 'panels[0].series[1].label="\\u001b[31mred\\u0007"'
    swept(local, result(0.7), overrides=(red, "panels[0].published=[]"))
    _, output = run(tmp_path)
    assert not {"\x1b", "\x07"} & {*output}
    assert "\\x1b[31mred\\x07" in output
