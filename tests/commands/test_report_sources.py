"""Which panels a report draws, and from which trials. Results are made up; nothing is drawn."""

import json

import pytest

from sweeper.analysis.report_sources import ReportError, sources
from sweeper.analysis.results import Results
from sweeper.messages import UserError
from tests.filled_stores import swept
from tests.results import result
from tests.trials import coloring_trial

PANELS = """
panels:
  - {kind: curve, name: average, x: q, metric: success, split: baseline}
  - {kind: histogram, name: inputs, metric: success, split: q}
"""
SPACE = "trial:\n  anything: goes, since only the panels are read\n" + PANELS


def listed(store, *spaces, sweeps=(), **options):
    return sources(store, Results.of_store(store), spaces, sweeps, **options)


def seeds(source):
    return sorted(source.results.trials["seed"])


def names(source):
    return [panel.name for panel in source.panels]


def space_of(tmp_path, name="space", **changes):
    trial = json.loads(coloring_trial(**changes).model_dump_json())
    space = tmp_path / f"{name}.yaml"
    space.write_text(f"trial: {json.dumps(trial)}\n" + PANELS)
    return space


def test_a_sweep_is_drawn_from_the_finished_trials_of_its_latest_start(local):
    local.commit(result({"seed": 2}))
    swept(local, result({"seed": 0}), text=SPACE)
    swept(local, result({"seed": 1}), result({"seed": 3}, status="stopped"), text=SPACE)
    (source,) = listed(local)
    assert (source.name, names(source), seeds(source)) == ("ours", ["average", "inputs"], [1])


def test_overrides_of_the_command_line_reach_the_panels(local):
    swept(local, result(), text=SPACE, overrides=("panels[0].name=renamed",))
    assert names(*listed(local)) == ["renamed", "inputs"]


def test_sweeps_can_be_chosen(local):
    swept(local, result({"seed": 0}), name="one", text=SPACE)
    swept(local, result({"seed": 1}), name="other", text=SPACE)
    assert [source.name for source in listed(local)] == ["one", "other"]
    assert [(source.name, seeds(source)) for source in listed(local, sweeps=["other"])] == [("other", [1])]


def test_a_space_is_drawn_from_the_trials_that_it_plans(local, tmp_path):
    for seed in range(2):
        local.commit(result({"seed": seed}))
    (source,) = listed(local, space_of(tmp_path))
    assert (source.name, seeds(source), source.remark) == ("space", [0], "")
    (missing,) = listed(local, space_of(tmp_path, steps=9))
    assert (seeds(missing), missing.remark) == ([], "1 of 1 trial not run yet")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("panels:\n  - {kind: curve}\n", False), ("panels: 3\n", False), ("a: [\n", False),
        ("- a list\n", True), ("", True),
        # Legal one by one, and no trial of it is: a halving is expanded to tell its winners.
        ("trial:\n  task: {name: coloring, vertices: 5}\n  model: {name: transformer, width: 4}\n  baseline: Aq_R\n"
        "  steps: 300\n  evaluation: {seeds: {choice: [30, 1]}, votes: {choice: [[9], [1]]}}\n"
        "search: {method: halving, starts: 2, rungs: [{steps: 100, keep: 1}]}\n", True),
    ],
    ids=["no panel", "no list", "no YAML", "list", "nothing", "no trials"],
)  # fmt: skip
def test_a_sweep_that_cannot_be_read_costs_no_other_sweep_its_figures(local, text, read):
    swept(local, result(), text=SPACE)
    swept(local, result(), name="strange", text=text)
    ours, strange = listed(local)
    assert (names(ours), names(strange)) == (["average", "inputs"], [])
    assert ("'strange'" in strange.remark) != read


@pytest.mark.parametrize("sweep", ["our", "bare", "broken"])
def test_a_choice_that_makes_no_sense_is_refused(local, sweep):
    swept(local, result(), text=SPACE)
    swept(local, result(), name="bare", text="trial: {}\n")
    swept(local, result(), name="broken", text="panels:\n  - {kind: curve}\n")
    with pytest.raises(UserError if sweep == "our" else ReportError, match=sweep):
        listed(local, sweeps=[sweep])
