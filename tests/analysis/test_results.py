"""One frame of results: SQL and figures see the same columns, and every column holds values, not their spelling."""

import json
import math
import re

import pyarrow as pa
import pytest

from sweeper.analysis import cost, results, settings_table, views
from sweeper.analysis.figures import selection
from sweeper.analysis.results import Results, named, named_frame
from sweeper.store.store import Store
from sweeper.trial.entry_names import entries
from sweeper.trial.record import canonical
from sweeper.trial.trial import first_part
from tests.results import failure, result
from tests.trials import coloring_trial


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two tasks, a metric with the name of an entry, a metric that was not finite, and a failed trial."""
    filled = Store.open(tmp_path_factory.mktemp("results"))
    filled.commit(result(metrics={"success": 0.5, "seeds": 7.0, "ratio": math.inf}))
    filled.commit(result({"seed": 1, "task": {"name": "recall", "keys": 4}}))
    filled.commit(failure({"seed": 2}))
    return filled


def test_figures_have_the_columns_of_the_sql_view(store):
    frame = Results.of_store(store).trials
    assert [*frame.columns, "tags", "notes"] == views.trials(store).column_names
    first = frame[frame["task"] == "coloring"].iloc[0]
    values = [first[name] for name in ("task_vertices", "evaluation_votes", "evaluation_seeds", "seeds")]
    assert values == [5, (3,), 10, 7.0]
    assert math.isnan(first["ratio"])


def test_a_metric_that_was_finite_in_no_trial_is_a_column_of_numbers(tmp_path):
    store = Store.open(tmp_path)
    for seed in range(2):
        store.commit(result({"seed": seed}, metrics={"success": 0.5, "ratio": math.nan}))
    assert named(store.trials()).schema.field("ratio").type == pa.float64()
    assert named_frame(store.trials().to_pandas())["ratio"].dtype == float
    assert results.finite_values(store, [coloring_trial()], "ratio") == []
    (setting,) = settings_table.settings(Results.of_store(store).trials)
    assert setting.mean("ratio") is None
    assert len(settings_table.settings_table([setting], first="ratio"))


def test_a_dotted_path_names_the_column_of_its_entry_and_of_no_other(store):
    frame = Results.of_store(store).trials
    columns = {
        "task_vertices": "task_vertices", "task.vertices": "task_vertices", "objective.q": "q", "task.name": "task",
        "evaluation.seeds": "evaluation_seeds", "seed": "seed",
    }  # fmt: skip
    assert {name: selection.column(frame, name) for name in columns} == columns
    for unknown in ("model.vertices", "vertices"):
        with pytest.raises(selection.NoData, match=rf"'{re.escape(unknown)}'"):
            selection.column(frame, unknown)


def test_a_name_keeps_its_meaning_whatever_else_is_committed(store, tmp_path):
    alone = Store.open(tmp_path)
    alone.commit(result())
    before = views.trials(alone).column_names
    alone.commit(result({"seed": 1, "task": {"name": "recall", "keys": 4}, "optimizer": {"name": "pgpe"}}))
    assert set(before) <= set(views.trials(alone).column_names)
    assert "task_vertices" in before


def test_a_value_for_the_search_is_a_finite_metric_of_a_finished_trial(store, tmp_path):
    trials = [coloring_trial(seed=seed) for seed in (0, 2, 3)]
    for metric, values in {"success": [0.5], "seeds": [7.0], "ratio": [], "nothing": []}.items():
        assert results.finite_values(store, trials, metric) == values
    early = Store.open(tmp_path)
    early.commit(result(status="stopped"))
    assert results.finite_values(early, [coloring_trial()], "success") is None


def figures_of(sentence):
    """The numbers and units of an estimate."""
    return re.findall(r"\d+ (?:min|s|trials?)\b", sentence)


COST = {"steps_done": 250.0, "train_seconds": 50.0, "evaluation_seconds": 10.0}


def test_the_cost_is_told_by_rows_of_the_same_structure(tmp_path):
    store = Store.open(tmp_path)
    store.commit(result(timings=COST))
    known, unknown = coloring_trial(seed=5, steps=1000), coloring_trial(batch_size=16)
    assert figures_of(cost.estimate(store, [])) == []
    assert cost.estimate(store, [unknown]).startswith("unknown")
    assert figures_of(cost.estimate(store, [known, unknown])) == ["3 min", "30 s", "1 trial"]


def test_rows_of_a_task_that_this_checkout_lacks_tell_no_cost(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    store.commit(result(timings=COST))
    rows = store.trials()
    foreign = rows["spec"].to_pylist()[0].replace('"coloring"', '"knitting"')
    rows = rows.set_column(rows.schema.get_field_index("spec"), "spec", pa.array([foreign]))
    monkeypatch.setattr(Store, "trials", lambda self: rows)
    assert cost.estimate(store, [coloring_trial()]).startswith("unknown")
    assert first_part(foreign) is None


def test_entries_that_are_not_written_have_their_values():
    """A trial from before a field was trained with the value at which the field is not written."""
    trials = [coloring_trial(precision=precision) for precision in ("float32", "tensorfloat32")]
    written = [entries(json.dumps(canonical(trial))) for trial in trials]
    assert "precision" not in canonical(trials[0])
    assert [record["precision"] for record in written] == ["float32", "tensorfloat32"]
    evolved = entries(json.dumps(canonical(coloring_trial(optimizer={"name": "pgpe", "population": 4}))))
    assert (evolved["optimizer.center_optimizer"], evolved["optimizer.max_std"]) == ("adam", math.inf)
    # As q, and no value of its own.
    assert "objective.final_q" not in written[0]
    assert written[0]["objective.name"] == "q_norm"
