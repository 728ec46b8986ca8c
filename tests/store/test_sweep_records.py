"""A sweep keeps its history of starts, also under another name, beside other starts, and after crashes."""

import functools
import itertools
import json
import shutil

import pytest

from sweeper.store.annotations import Subject, annotate, read_annotations
from sweeper.store.copying import copy, rename_sweep
from sweeper.store.deletion import delete, of_sweep
from sweeper.store.store import Store, StoreError
from sweeper.store.sweep_records import remove_starts, start_files
from sweeper.trial import fingerprint
from tests import results
from tests.filled_stores import IDS
from tests.power_cuts import power_cuts
from tests.store.meanwhile import before_next
from tests.store.test_store_0_1_0 import FIXTURE


def record(name="quick", ids=("a" * 20, "b" * 20), **origin):
    return results.record(name, ids, overrides=("trial.steps=3",), **origin)


def planned(store, name):
    """The trials that each start of a sweep planned."""
    return [each.trial_ids for each in store.sweeps() if each.name == name]


def plans(store, name="quick"):
    return [path for path in store.listing(f"sweeps/{name}") if path.endswith(".txt")]


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
    assert len(plans(local)) == 2, "equal plans are stored once"


def test_a_start_that_plans_more_and_more_is_one(local):
    for count in (0, 1, 3):
        local.record_sweep(record(ids=IDS[:count]))
    assert planned(local, "quick") == [tuple(IDS[:3])]
    assert len(plans(local)) == 1, "nothing piles up"
    local.record_sweep(record(ids=IDS[1:2]))
    assert planned(local, "quick") == [tuple(IDS[:3]), (IDS[1],)], "another plan is another start"


def test_the_values_of_variables_are_kept_with_the_plan(local, tmp_path):
    values = {key: {"variables.x": 0.1 * place, "variables.word": "a\u2028 b\n"} for place, key in enumerate(IDS[:3])}

    def start(count: int):
        own = {key: values[key] for key in IDS[:count]}
        return record(ids=IDS[:count]).model_copy(update={"variables": own})

    for count in (1, 3):
        local.record_sweep(start(count))
    assert local.sweeps() == [start(3)]
    assert len(plans(local)) == 1, "nothing piles up"
    rename_sweep(local.files, "quick", "other")
    assert local.sweeps() == [start(3).model_copy(update={"name": "other"})]
    local.record_sweep(record("other", ids=IDS[:3]))
    assert [bool(each.variables) for each in local.sweeps()] == [True, False], "other values are another plan"


@pytest.mark.parametrize("moment", range(2))
def test_two_starts_at_once_are_both_kept(local, moment):
    """Before and after the plan is written, which is that of an earlier start."""
    local.record_sweep(record())
    before_next(
        local.files, "write" if moment else "read", lambda: Store.open(local.url).record_sweep(record(captured="2027"))
    )
    local.record_sweep(record(captured="2028"))
    starts = local.sweeps()
    assert starts[0] == record()
    assert sorted(each.provenance.captured for each in starts[1:]) == ["2027", "2028"]


def test_a_plan_that_another_start_names_meanwhile_stays(local):
    """One start grows, and another begins with the plan that it had: at each operation on files."""
    growing, ids = record(ids=IDS[:1], captured="2027"), IDS[:1]
    for operation in ("read", "write", "listing", "delete"):
        for path in local.listing("sweeps"):
            local.delete(path)
        local.record_sweep(growing)
        other = Store.open(local.url)
        before_next(local.files, operation, lambda other=other: other.record_sweep(record(ids=ids)))
        local.record_sweep(growing.model_copy(update={"trial_ids": tuple(IDS[:3])}))
        assert tuple(IDS[:1]) in planned(local, "quick"), operation
        assert tuple(IDS[:3]) in planned(local, "quick"), operation


def test_a_start_whose_plan_is_deleted_meanwhile_writes_it_again(local):
    local.record_sweep(record())
    (plan,) = plans(local)
    before_next(local.files, "write", lambda: Store.open(local.url).delete(plan))
    local.record_sweep(record(captured="2028"))
    assert planned(local, "quick") == [record().trial_ids] * 2


def test_a_start_that_grows_while_it_is_read_is_read(local):
    """Between the reading of the start and that of its plan."""
    local.record_sweep(record(ids=IDS[:1]))
    grow = functools.partial(Store.open(local.url).record_sweep, record(ids=IDS[:3]))
    before_next(local.files, "read", lambda: before_next(local.files, "read", grow))
    assert planned(local, "quick") == [tuple(IDS[:3])]


def test_a_start_that_comes_while_others_are_deleted_keeps_its_plan(local):
    local.record_sweep(record())
    paths, late = start_files(local.files, "quick"), record(captured="2028")
    before_next(local.files, "listing", lambda: Store.open(local.url).record_sweep(late))
    remove_starts(local.files, "quick", paths)
    assert local.sweeps() == [late]


def test_a_record_from_before_objectives_were_plug_ins_is_read(local):
    written = record(code=fingerprint.captured())
    local.record_sweep(written)
    path = the_start(local)
    entry = json.loads(local.read_bytes(path))
    del entry["provenance"]["code"]["objectives"]
    local.write_bytes(path, json.dumps(entry).encode())
    assert planned(local, "quick") == [written.trial_ids]


def test_a_start_follows_those_in_the_file_of_an_earlier_store(tmp_path):
    store = Store.open(shutil.copytree(FIXTURE, tmp_path / "store"))
    before = [each for each in store.sweeps() if each.name == "quick"]
    assert len(before) == 2
    earlier = store.read_bytes("sweeps/quick.json")
    store.record_sweep(record())
    assert [each for each in store.sweeps() if each.name == "quick"] == [*before, record()]
    assert store.read_bytes("sweeps/quick.json") == earlier
    target = Store.open(tmp_path / "target")
    copy(store, target, ["quick"])
    assert target.sweeps() == [*before, record()]
    rename_sweep(store.files, "quick", "best")
    assert planned(store, "best") == [each.trial_ids for each in (*before, record())]
    assert planned(store, "quick") == []
    delete(store, of_sweep(store, "other"))
    assert {each.name for each in store.sweeps()} == {"best"}


BROKEN = {
    "cut off": lambda entry: json.dumps(entry).encode()[:-1],
    "nested": lambda entry: b"[" * 200_000,
    "a list": lambda entry: b"[]",
    "not UTF-8": lambda entry: b'{"text":"\xff"}',
    "a plan that is not there": lambda entry: json.dumps(entry | {"plan": "f" * 20}).encode(),
    "no plan": lambda entry: json.dumps(entry | {"plan": None}).encode(),
    "no version": lambda entry: json.dumps({key: entry[key] for key in entry if key != "schema_version"}).encode(),
    "unknown keys": lambda entry: json.dumps(entry | {"x\n\x1b[2J": 1}).encode(),
    "text of another type": lambda entry: json.dumps(entry | {"text": 3}).encode(),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_start_costs_itself_and_one_line(local, change, caplog):
    local.record_sweep(record())
    local.record_sweep(record("other"))
    path = the_start(local)
    local.write_bytes(path, BROKEN[change](json.loads(local.read_bytes(path))))
    assert local.sweeps() == [record("other")]
    (line,) = [text for each in caplog.records if "quick" in (text := each.getMessage())]
    assert line.isprintable()
    local.record_sweep(record(captured="2028"))
    assert local.sweeps() == [record("other"), record(captured="2028")], "the next start is not hindered"


@pytest.mark.parametrize("damage", [b"", b"a" * 20, b"\xff"], ids=range(3))
def test_a_damaged_plan_is_noticed_and_mended_by_the_next_start(local, damage, caplog):
    local.record_sweep(record())
    (plan,) = plans(local)
    local.write_bytes(plan, damage)
    assert local.sweeps() == []
    assert "quick" in caplog.text
    local.record_sweep(record(captured="2028"))
    assert planned(local, "quick") == [record().trial_ids] * 2


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "ü"])
def test_a_sweep_needs_a_name_that_can_be_a_file(local, name):
    with pytest.raises(StoreError):
        local.record_sweep(record(name))
    local.record_sweep(record())
    with pytest.raises(StoreError):
        rename_sweep(local.files, "quick", name)
    assert local.sweeps() == [record()]


# Renaming


def with_sweeps(url):
    store = Store.open(url)
    for count, captured in ((1, "2026-01-02"), (2, "2026-06-01"), (3, "2027-01-01")):
        store.record_sweep(record("quick", IDS[:count], captured=captured))
    store.record_sweep(record("other", IDS[2:]))
    return store


def test_a_refused_renaming_has_done_nothing(tmp_path):
    """As annotations that make no sense cannot be changed."""
    store = with_sweeps(tmp_path)
    store.write_bytes("annotations/x.json", b"{")
    before = store.listing("sweeps")
    with pytest.raises(StoreError, match=r"x\.json"):
        rename_sweep(store.files, "quick", "best")
    assert store.listing("sweeps") == before


def renamed(records):
    changed = [each.model_copy(update={"name": "best"}) if each.name == "quick" else each for each in records]
    return sorted(changed, key=lambda each: each.name)


def test_all_starts_are_under_the_new_name_in_their_order(tmp_path):
    store = with_sweeps(tmp_path)
    before = store.sweeps()
    rename_sweep(store.files, "quick", "best")
    assert store.sweeps() == renamed(before)
    assert store.listing("sweeps/quick") == []
    store.record_sweep(record("best", IDS))
    assert planned(store, "best")[-1] == tuple(IDS)
    with pytest.raises(StoreError, match="other"):
        rename_sweep(store.files, "best", "other")  # which is taken
    assert len(planned(store, "best")) == 4


def test_a_sweep_that_cannot_be_read_is_not_lost(tmp_path):
    store = with_sweeps(tmp_path)
    broken = start_files(store.files, "quick")[0]
    store.write_bytes(broken, b"{}")
    with pytest.raises(StoreError, match=broken):
        rename_sweep(store.files, "quick", "best")
    assert len(start_files(store.files, "quick")) == 3
    assert store.listing("sweeps/best") == []
    rename_sweep(store.files, "other", "more")


def quick_begins(store):
    store.record_sweep(record("quick", IDS, captured="2027-02-01"))
    return lambda: (planned(store, "best") + planned(store, "quick"))[-1] == tuple(IDS)


def quick_is_noted(store):
    annotate(store.files, Subject("quick"), note="meanwhile")
    return lambda: read_annotations(store.files).sweeps["best"].texts == ["meanwhile"]


def best_begins(store):
    store.record_sweep(record("best", IDS[:1], captured="2027-02-01"))
    return lambda: tuple(IDS[:1]) in planned(store, "best")


@pytest.mark.slow
@pytest.mark.parametrize("write", [quick_begins, quick_is_noted, best_begins])
def test_what_another_process_writes_meanwhile_is_kept_or_refused(tmp_path, monkeypatch, write):
    """Before each operation of a renaming."""
    answers = []
    for moment in itertools.count():
        store = with_sweeps(tmp_path / str(moment))
        other, counter, kept, within = Store.open(store.url), itertools.count(), [], []

        def meanwhile(operation, moment=moment, other=other, counter=counter, kept=kept, within=within):
            def done(*arguments, **options):
                if not within and next(counter) == moment:
                    try:
                        kept.append(write(other))
                    except StoreError:
                        kept.append(lambda: "refused")
                within.append(operation)  # an operation that reads in the middle holds a lock
                try:
                    return operation(*arguments, **options)
                finally:
                    within.pop()

            return done

        for name in ("read", "write", "delete", "listing"):
            monkeypatch.setattr(store.files, name, meanwhile(getattr(store.files, name)))
        try:
            rename_sweep(store.files, "quick", "best")
        except StoreError:
            assert kept.pop()(), moment
            assert planned(other, "quick") == [tuple(IDS[:count]) for count in (1, 2, 3)], "all is as it was"
            kept.append(lambda: "refused")
        if not kept:
            break
        assert kept[0](), moment
        answers.append(kept[0]())
        assert read_annotations(other.files).sweeps.keys() <= {"best"}
    assert True in answers
    assert "refused" in answers or write is quick_begins
    assert len(answers) > 6


@pytest.mark.slow
def test_a_crash_at_every_operation_keeps_every_start_and_every_note(tmp_path):
    for folder, cut in power_cuts(tmp_path, least=4):
        store = with_sweeps(folder)
        for name in ("quick", "other"):
            annotate(store.files, Subject(name), note=f"of {name}")
        before = store.sweeps()
        latest = before[-1].trial_ids
        cut(rename_sweep, store.files, "quick", "best")
        last = {name: planned(store, name)[-1:] for name in ("quick", "best")}
        assert [latest] in last.values(), folder
        assert last["quick"] in ([], [latest]), "no earlier start counts meanwhile"
        if start_files(store.files, "quick"):
            rename_sweep(store.files, "quick", "best")
        assert store.sweeps() == renamed(before), folder
        notes = {name: said.texts for name, said in read_annotations(store.files).sweeps.items()}
        assert notes == {"best": ["of quick"], "other": ["of other"]}, folder
