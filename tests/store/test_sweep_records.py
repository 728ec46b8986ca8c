"""A sweep keeps its history of starts, beside other starts, and a damaged start is told and never another."""

import json
import math

import pytest

from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import read_records, start_files
from tests import results
from tests.filled_stores import IDS
from tests.store.meanwhile import before_next


def record(name="quick", ids=("a" * 20, "b" * 20), **origin):
    return results.record(name, ids, overrides=("trial.steps=3",), **origin)


def planned(store, name="quick"):
    """The trials that each start of a sweep planned."""
    return [each.trial_ids for each in store.sweeps() if each.name == name]


def the_start(store, name="quick"):
    """The file of the only start."""
    (path,) = start_files(store.files, name)
    return path


def test_the_history_of_a_sweep_is_kept_in_order_whatever_the_clock_says(local):
    starts = [record(captured=time) for time in ("2030", "1970", "2001")] + [record(ids=())]
    for start in starts:
        local.record_sweep(start)
    local.record_sweep(record("other"))
    assert local.sweeps() == [record("other"), *starts]


def test_a_start_that_plans_more_and_more_is_one(local):
    for count in (0, 1, 3):
        local.record_sweep(record(ids=IDS[:count]))
    assert planned(local) == [tuple(IDS[:3])]
    local.record_sweep(record(ids=IDS[1:2]))
    assert planned(local) == [tuple(IDS[:3]), (IDS[1],)], "another plan is another start"


def test_the_values_of_variables_are_kept_with_the_plan(local):
    values = {
        key: {"variables.x": 0.1 * place, "variables.word": "a\u2028 b\n", "variables.y": math.inf}
        for place, key in enumerate(IDS[:3])
    }

    def start(count: int):
        own = {key: values[key] for key in IDS[:count]}
        return record(ids=IDS[:count]).model_copy(update={"variables": own})

    for count in (1, 3):
        local.record_sweep(start(count))
    assert local.sweeps() == [start(3)]
    local.record_sweep(record(ids=IDS[:3]))
    assert [bool(each.variables) for each in local.sweeps()] == [True, False], "other values are another plan"


@pytest.mark.parametrize("captured", ["2027", "2028"], ids=["another second", "the same second"])
@pytest.mark.parametrize("earlier", [True, False])
def test_two_starts_at_once_are_both_kept(local, captured, earlier):
    """Just before the one is written comes the other, which plans another trial."""
    if earlier:
        local.record_sweep(record())
    other = record(ids=IDS[:1], captured=captured)
    before_next(local.files, "write", lambda: Store.open(local.url).record_sweep(other))
    local.record_sweep(record(ids=IDS[1:2], captured="2028"))
    assert sorted(planned(local)[earlier:]) == sorted([(IDS[0],), (IDS[1],)])


def test_commands_lose_the_folders_of_absolute_paths(local):
    local.record_sweep(record(command="python -m sweeper.run /home/ada/space.yaml --results=/scratch/ada/runs"))
    (start,) = local.sweeps()
    assert start.provenance.command == "python -m sweeper.run space.yaml --results=runs"


BROKEN = {
    "cut off": lambda data: data[:-1],
    "without a digest": lambda data: json.dumps({**json.loads(data), "digest": None}).encode(),
    "edited": lambda data: data.replace(b"a" * 20, b"c" * 20),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_start_costs_itself_and_one_line(local, change, caplog):
    local.record_sweep(record())
    local.record_sweep(record("other"))
    path = the_start(local)
    local.write_bytes(path, BROKEN[change](local.read_bytes(path)))
    assert local.sweeps() == [record("other")]
    (line,) = [text for each in caplog.records if path in (text := each.getMessage())]
    assert line.isprintable()
    with pytest.raises(StoreError, match=path):
        read_records(local.files, strict=True)
    local.record_sweep(record(captured="2028"))
    assert local.sweeps() == [record("other"), record(captured="2028")], "the next start is not hindered"


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "a b"])
def test_a_sweep_needs_a_name_that_can_be_a_file(local, name):
    with pytest.raises(StoreError):
        local.record_sweep(record(name))
    assert local.sweeps() == []
