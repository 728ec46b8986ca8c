"""Trained trials in Python: weights by name, and the network that is loaded again."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sweeper
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.pack_run import Destination
from sweeper.packs.packing import Pack
from sweeper.packs.trained_trial import LoadError
from sweeper.store.store import Store, StoreError
from sweeper.training.named_weights import OtherNetworkError, network_of, weights_of
from sweeper.trial import provenance
from sweeper.trial.trial import trial_id
from tests.results import WEIGHTS, result
from tests.trials import coloring_trial
from tests.whole_packs import run_pack

MODELS = [
    {"name": "transformer", "width": 4, "key_size": 4, "mlp": True, "layer_norm": True, "positions": "learnt"},
    {"name": "deep_sets", "width": 4, "hidden": 4},
]


def _network(trial: TrialSpec) -> Any:
    """A network of a trial with arbitrary weights, all different; nothing is compiled."""
    shapes = jax.eval_shape(lambda: trial.model.build(trial.task, trial.keys().weights))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), shapes)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["name"])
def test_the_way_to_names_and_back(model):
    trial = coloring_trial(model=model)
    network = _network(trial)
    weights = weights_of(network)
    assert "readout.weight.value" in weights
    again = network_of(trial, weights)
    assert jax.tree.structure(again) == jax.tree.structure(network)
    for back, leaf in zip(jax.tree.leaves(again), jax.tree.leaves(network), strict=True):
        np.testing.assert_array_equal(back, leaf, strict=True)


def test_weights_of_another_network_are_refused():
    trial = coloring_trial()
    weights = weights_of(_network(trial))
    wider = coloring_trial(model={"name": "transformer", "blocks": 1, "width": 6, "key_size": 4})
    with pytest.raises(OtherNetworkError, match=r"transformer .* float32\[6, 4\], .* float32\[4, 4\]"):
        network_of(wider, weights)
    weights["more"] = np.zeros(1, np.float32)
    with pytest.raises(OtherNetworkError, match=r" more .* float32\[1\]"):
        network_of(trial, weights)


ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "networks.md"
TRIAL = coloring_trial()


def _example(number):
    text = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[number]
    return compile(text, str(DOCUMENT), "exec")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder in which a sweep left its store."""
    folder = tmp_path_factory.mktemp("project")
    run_pack(Pack((TRIAL,)), Destination(Store.open(folder / "results"), provenance.capture("test")))
    return folder


@pytest.mark.slow
def test_a_loaded_trial_is_the_trial_with_its_network(folder):
    trained = sweeper.load(trial_id(TRIAL), folder / "results")
    assert trained.trial == TRIAL
    assert trained.row["status"] == "finished"
    logits = TRIAL.task.logits(trained.network, TRIAL.task.evaluation_inputs()[0], jnp.full(5, 0.5))
    assert logits.shape == (5, 3)


@pytest.mark.slow
def test_the_example_of_the_document_runs(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    exec(_example(0), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"\[[012]( [012]){4}\] \d edges of equal colours", line) for line in lines)


@pytest.mark.long
def test_better_probabilities_of_the_seeds_are_those_that_the_document_says(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").symlink_to(ROOT / "published")
    monkeypatch.chdir(tmp_path)
    exec(_example(1), {})
    said = re.fullmatch(r"worst input ([\d.]+); ([\d.]+) with (\d+) of the seeds r\n", capsys.readouterr().out)
    equal, better, taken = map(float, said.groups())
    assert 52 / 3 - 1e-3 <= better < equal, "no agent promises less than the exact min-max"
    assert taken <= 24
    page = " ".join(DOCUMENT.read_text().split())
    told = re.search(r"that is ([\d.]+) steps for the worst treasure with equal probabilities, and ([\d.]+) with", page)
    assert [equal, better] == pytest.approx(list(map(float, told.groups())), abs=0.05), "another CPU rounds otherwise"


def test_whoever_cannot_be_loaded_is_told_why_in_one_sentence(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    with pytest.raises(StoreError, match="nowhere"):
        sweeper.load("0" * 20, tmp_path / "nowhere")
    store.commit(result(network=None))
    store.commit(result({"seed": 1}, network=WEIGHTS))
    without, other = (trial_id(result({"seed": seed}).trial) for seed in (0, 1))
    with pytest.raises(LoadError, match="0" * 20):
        sweeper.load("0" * 20, tmp_path)
    with pytest.raises(LoadError, match=rf"{without} .*resources\.networks: false"):
        sweeper.load(without, tmp_path)
    with pytest.raises(LoadError, match=f"{other}.* transformer "):
        sweeper.load(other, tmp_path)
    monkeypatch.setattr(type(TRIAL.task), "VERSION", 2)
    with pytest.raises(LoadError, match=f"{other} .* commit {result().provenance.commit}"):
        sweeper.load(other, tmp_path)
