"""Rows that a stranger made and sealed well: one warning that names the file, and never a traceback in what follows."""

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweeper.analysis import page, ready_questions
from sweeper.analysis.results import current, named
from sweeper.analysis.sql import table
from sweeper.messages import UserError
from sweeper.store import row_checks
from sweeper.store.schema import ROW, TRIAL_FILE
from sweeper.store.seal import sealed
from sweeper.store.store import Store
from sweeper.store.trial_file import trial_file
from sweeper.trial.trial import trial_id
from tests.filled_stores import plan
from tests.results import outcomes, result

MINE, OTHER = trial_id(result().trial), trial_id(result({"seed": 1}).trial)
SEAL, DATA = trial_file(result())
TABLE = pq.ParquetFile(pa.py_buffer(DATA)).read().replace_schema_metadata(None)
SPEC = json.loads(TABLE["spec"][0].as_py())


def strange(store, name, column, seal=SEAL):
    """Make one column of the file of a trial this array, and seal the file; beside a trial that is whole."""
    changed = TABLE.set_column(TABLE.column_names.index(name), name, column)
    store.commit(result({"seed": 1}))
    store.write_bytes(SEAL.name, sealed(changed, seal, {"write_statistics": False}))
    plan(store, [MINE, OTHER])


def read_all(store):
    """All that reads rows; an answer may be a refusal in words."""
    rows = current(store.trials())
    named(rows)
    store.curves(), store.outcomes(), store.seals()
    for ask in (
        lambda: ready_questions.best(store, "ours"),
        lambda: ready_questions.show(store, MINE),
        lambda: ready_questions.curves(store, MINE),
    ):
        with contextlib.suppress(UserError):
            ask()
    return rows["trial_id"].to_pylist()


def text(value):
    return pa.array([value if isinstance(value, str) or value is None else json.dumps(value)], pa.string())


def curves(name="train_loss", points=({"step": 1, "value": 0.5},)):
    return pa.array([[(name, list(points))]], TRIAL_FILE.field("curves").type)


def spec(**changes):
    return text({key: value for key, value in (SPEC | changes).items() if value is not ...})


STRANGE = {
    "a date of another age": ("started", pa.array([2**62], pa.timestamp("us", tz="UTC"))),
    "a date that only pandas cannot hold": ("finished", pa.array([10**16], pa.timestamp("us", tz="UTC"))),
    "a list of names": ("pack_id", pa.array([["a", "b"]])),
    "a name that is a list": ("spec", spec(task={"name": ["coloring"]})),
    "a part that is a list": ("spec", spec(model=["mlp"])),
    "a list of records": ("spec", spec(steps=[{"a": 1}])),
    "no record": ("spec", text([1, 2])),
    "no JSON": ("spec", text("{")),
    "deep JSON": ("spec", text("[" * 50_000)),
    "no steps": ("steps", pa.array([None], pa.int64())),
    "no specification": ("spec", text(None)),
    "numbers as texts": ("steps", pa.array(["300"])),
    "a metric without a name": ("extra_metrics", text({"": 1.0})),
    "a metric that is a list": ("extra_metrics", text({"a": [1.0]})),
    "a metric of a long name": ("extra_metrics", text({"a" * 100_000: 1.0})),
    "fifty thousand metrics": ("extra_metrics", text({f"m{n}": 1.0 for n in range(50_000)})),
    "metrics that are a number": ("extra_metrics", text(3)),
    "versions that are numbers": ("versions", text({"jax": 1})),
    "a curve without a name": ("curves", curves("")),
    "a curve without a step": ("curves", curves(points=[{"step": None, "value": 1.0}])),
    "another trial": ("trial_id", text(OTHER)),
    "another end": ("status", text("failed")),
    "outcomes of two lengths": (
        "outcomes", pa.array([[("success", [1.0]), ("loss", [1.0, 2.0])]], TRIAL_FILE.field("outcomes").type),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGE)
def test_a_row_that_makes_no_sense_costs_itself_and_one_warning(local, what, caplog):
    strange(local, *STRANGE[what])
    assert read_all(local) == [OTHER] or STRANGE[what][0] in ("curves", "outcomes")
    (line,) = [text for record in caplog.records if MINE in (text := record.getMessage())]
    assert line.isprintable()
    assert len(line) < 1000
    assert local.committed() == {OTHER: "finished"}


@pytest.mark.slow
def test_a_report_of_such_rows_is_made(tmp_path, vega):
    for number, name in enumerate(["a date of another age", "a name that is a list", "a metric without a name"]):
        store = Store.open(tmp_path / str(number))
        strange(store, *STRANGE[name])
        assert OTHER[:8] in page.render(store, store.trials(), [])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@st.composite
def columns(draw):
    """A column of a trial's file, and an array of one value for it, of its type or of another."""
    name = draw(st.sampled_from([*ROW.names, "curves", "outcomes", "metrics"]))
    if name == "spec" and draw(st.booleans()):
        part = draw(st.sampled_from([*SPEC, "experiment", "start_from", "x"]))
        return name, spec(**{part: draw(VALUES | st.fixed_dictionaries({"name": VALUES}))})
    kind = draw(st.sampled_from([TRIAL_FILE.field(name).type, pa.string(), pa.int64(), pa.float64()]))
    value: object = draw(st.integers(-(2**63), 2**63 - 1))
    if pa.types.is_string(kind):
        value = draw(st.text(max_size=5) | VALUES.map(json.dumps))
    elif pa.types.is_floating(kind):
        value = draw(st.floats())
    elif pa.types.is_boolean(kind):
        value = draw(st.booleans())
    elif pa.types.is_map(kind):
        number = st.floats(width=32) | st.none()
        one = number if name == "outcomes" else st.fixed_dictionaries({"step": st.integers(0, 9), "value": number})
        lists = st.lists(one, max_size=3) | st.none()
        value = draw(st.lists(st.tuples(st.text(max_size=3), number if name == "metrics" else lists), max_size=3))
    return name, pa.array([draw(st.sampled_from([value, None]))], kind)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(column=columns())
def test_no_row_of_a_stranger_is_a_traceback(tmp_path_factory, caplog, column):
    store = Store.open(tmp_path_factory.mktemp("strange"))
    caplog.clear()
    strange(store, *column)
    assert OTHER in read_all(store)
    assert len([record for record in caplog.records if MINE in record.getMessage()]) <= 1


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=12) | st.sampled_from(["a" * 201, "select", 'a"b', "trial_id", "SUCCESS", "a.b", "=1"]))
def test_any_name_of_a_metric_is_refused_or_can_be_asked_for(tmp_path_factory, name):
    store = Store.open(tmp_path_factory.mktemp("named"))
    try:
        store.commit(result(metrics={"success": 0.5, name: 0.25}))
    except ValueError:
        assert store.committed() == {}
        return
    plan(store, [MINE])
    assert read_all(store) == [MINE]
    (row,) = table("select * from trials", store).to_pylist()
    assert row["trial_id"] == MINE
    assert 0.25 in row.values() or name in row
    assert dict(pq.read_table(Path(store.root, SEAL.name))["metrics"][0].as_py())[name] == 0.25


def test_what_is_written_keeps_the_same_bounds(local):
    many = {f"m{number}": 1.0 for number in range(row_checks.MOST_NAMES + 1)}
    senseless = [{"metrics": many}, {"metrics": {"": 1.0}}, {"curves": [(1, "", 1.0)]}]
    for changes in (*senseless, {"outcomes": outcomes(**{"a" * 201: [0.0] * 12})}):
        with pytest.raises(ValueError, match=r"metrics|curves|outcomes"):
            local.commit(result(**changes))
    assert local.committed() == {}
