"""Pictures of two columns of a store: what a line joins, the scales, and what is told."""

import pytest

import sweeper
from sweeper.analysis.plotting import plotted
from sweeper.store.store import Store
from tests.filled_stores import swept
from tests.results import result
from tests.tiny_sweeps import SPACE

DRAWN = SPACE.replace("{warmup_steps: 10}", "{warmup_steps: 10, learning_rate: {log_uniform: [1e-4, 1e-1]}}")
DRAWN = DRAWN.replace("q: 3", "q: {int: [1, 30]}") + "search: {method: random, trials: 3}\n"


def results_of(rates, qs, seeds=1, loss=0.5):
    """A result for each rate with its q, and each training seed."""
    return [
        result(
            {"optimizer": {"warmup_steps": 10, "learning_rate": rate}, "objective": {"q": q, "m": 2}, "seed": seed},
            metrics={"loss": loss * (1 + rate), "success": 0.5},
        )
        for rate, q in zip(rates, qs, strict=True)
        for seed in range(seeds)
    ]


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "results")


def drawn(store, x="learning_rate", y="loss", **asked):
    """The axes of a picture, and the entries of its legend."""
    figure = sweeper.plot(x, y, store.root, **asked)
    axes = next(axes for axes in figure.axes if axes.axison)
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    return axes, [text.get_text() for text in legend.get_texts()]


def joined(axes):
    """The lines that join several places."""
    return [line for line in axes.lines if line.get_linestyle() != "None" and len(line.get_xdata()) > 1]


RATES = [1e-4, 3e-4, 1e-3, 1e-2, 1e-1]


@pytest.mark.slow
def test_points_stand_alone_where_a_line_would_join_settings_that_differ(store):
    swept(store, *results_of(RATES, [1, 5, 3, 2, 4], seeds=2), text=DRAWN)
    axes, _ = drawn(store)
    assert not joined(axes)
    assert sum(len(line.get_xdata()) for line in axes.lines) == 10, "a point a trial"
    assert drawn(store, split="q")[0].get_xscale() == "log"


@pytest.mark.slow
@pytest.mark.parametrize("qs", [[3] * 5 * 2, [1] * 5 + [2] * 5], ids=["nothing else differs", "a grid"])
def test_a_line_joins_means_unless_points_are_asked_for(store, qs):
    swept(store, *results_of(RATES * 2, qs)[: None if qs[0] == 1 else 5])
    axes, _ = drawn(store)
    (line,) = joined(axes)
    assert line.get_xdata().tolist() == pytest.approx(RATES)
    assert axes.get_xscale() == "linear", "the space says nothing of a scale"
    points, _ = drawn(store, points=True, logx=True, logy=True)
    assert not joined(points)
    assert (points.get_xscale(), points.get_yscale()) == ("log", "log")


@pytest.mark.slow
@pytest.mark.parametrize("x", ["learning_rate", "step"])
def test_sweeps_have_series_of_their_own(store, x):
    first, second = (results_of(RATES, [q] * 5, loss=q) for q in (1, 2))
    ids = swept(store, *first, name="first")
    swept(store, *second, name="second")
    store.commit(result({"seed": 9}, metrics={"loss": 0.5}))
    swept(store, name="again", missing=ids)
    axes, labels = drawn(store, x, "train_loss" if x == "step" else "loss")
    assert labels == ["again, first", "second", "no sweep"]
    assert len(joined(axes)) == 2 + (x == "step")
    _, labels = drawn(store, x, "train_loss" if x == "step" else "loss", split="q")
    assert labels == ["again, first: q = 1", "second: q = 2", "no sweep: q = 3"]


@pytest.mark.slow
def test_what_a_logarithmic_axis_hides_is_told(store):
    swept(store, *(result({"optimizer": {"warmup_steps": steps}}, metrics={"loss": 0.5}) for steps in (0, 10)))
    for points, told in ((True, "1 point at 0 or below"), (False, "no place for 0")):
        _, remarks = plotted(store, "optimizer_warmup_steps", "loss", logx=True, points=points)
        assert any(told in remark for remark in remarks)
    with pytest.raises(sweeper.UserError, match="lines"):
        plotted(store, "step", "train_loss", points=True)


@pytest.mark.slow
def test_numbers_that_are_all_0_and_long_names_are_drawn_too(store):
    long = "validation/" + "accuracy_" * 9
    swept(store, result(metrics={"loss": 0.0, long: 0.5}))
    _, remarks = plotted(store, "seed", "loss", logy=True)
    assert any("1 point at 0" in remark for remark in remarks)
    plotted(store, "seed", long)
