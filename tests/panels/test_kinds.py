"""Declarations of panels: what YAML may say, and what is refused with a message for its author."""

import math

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from sweeper.panels.kinds import Panels

CURVE = """
kind: curve
name: 5A
x: q
metric: success
tail: success_p5
where: {task: coloring}
series:
  - {label: $A_R$, color: blue, where: {baseline: [AE_R, Aq_R]}}
  - {label: majority, metric: majority_5}
"""

CURVES = "kind: curve\nname: c\nx: m\nmetric: loss\nsplit: q\n"

HISTOGRAM = """
kind: histogram
name: 5C
metric: success
series:
  - {label: q = 1, where: {q: 1}}
"""

HEATMAP = """
kind: heatmap
name: "9"
x: q
metric: success
split: baseline
"""


def read(*texts):
    return TypeAdapter(Panels).validate_python([yaml.safe_load(text) for text in texts])


def problem(*texts):
    """The last of the problems: its path, and its kind or the field that its message begins with."""
    with pytest.raises(ValidationError) as caught:
        read(*texts)
    last = caught.value.errors()[-1]
    told = last["msg"].removeprefix("Value error, ").split(":")[0]
    path = [str(part) for part in last["loc"][2:] if "[" not in str(part)]
    return ".".join(path), told if last["type"] == "value_error" else last["type"]


def test_a_panel_needs_few_keys():
    curve, histogram, heatmap, split = read(
        CURVE, HISTOGRAM, HEATMAP, "{kind: curve, name: a b, x: {column: m, scale: log}, metric: loss, split: q}"
    )
    assert (curve.x.column, curve.x.scale, split.x.scale, split.split) == ("q", "linear", "log", "q")
    assert histogram.bins == heatmap.bins == 25
    assert heatmap.lowest == 1e-3


def test_a_series_that_names_a_line_names_all_of_its_lines():
    (curve,) = read(CURVE)
    by_panel, by_itself = curve.series
    assert curve.metrics(by_panel) == ("success", "success_p5")
    assert curve.metrics(by_itself) == ("majority_5", None)


def test_the_value_axis_has_one_factor():
    curve, percent, minutes = read(
        CURVE,
        CURVE.replace("5A", "a") + "y: {percent: true}\n",
        CURVE.replace("5A", "b") + "y: {unit: 60, limits: [0, null]}\n",
    )
    assert (curve.y.factor, percent.y.factor, minutes.y.factor) == (1, 100, 1 / 60)
    assert minutes.y.limits == (0, None)


def test_infinity_is_written_inf_in_conditions_and_published_values():
    text = CURVE + "published:\n  - {series: $A_R$, metric: success, source: here, values: {inf: 1, 2: 0.5}}\n"
    (curve,) = read(text.replace("task: coloring", "q: [1, inf]"))
    assert curve.where["q"] == [1, math.inf]
    assert curve.published[0].values == {math.inf: 1.0, 2.0: 0.5}


PUBLISHED = "published: [{{series: {}, metric: success, source: s, values: {{1: 1}}}}]\n"


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [
        (CURVE + "titel: x\n", "titel", "extra_forbidden"),
        (CURVE.replace("color: blue", "colour: blue"), "series.0.colour", "extra_forbidden"),
        (CURVE.replace("kind: curve", "kind: cuve"), "", "union_tag_invalid"),
        (CURVE.replace("name: 5A", "name: a/b"), "name", "string_pattern_mismatch"),
        (CURVE + "split: q\n", "", "series or split"),
        (CURVE.replace("majority, metric", "$A_R$, metric"), "", "series"),
        (HISTOGRAM.replace("metric: success", ""), "", "series"),
        (CURVE + "y: {limits: [1, 0]}\n", "y.limits", "1.0 must be below 0.0"),
        (CURVE + "y: {percent: true, unit: 60}\n", "y", "percent or unit"),
        (CURVE + "y: {unit: 0}\n", "y.unit", "nothing can be measured in units of 0"),
        ("{kind: scatter, name: s, metric: loss, split: q, x: {label: a}}", "x.column", "missing"),
        (CURVES + "lines: [{label: best}]\n", "lines.0.at", "missing"),
        (CURVE.replace("[AE_R, Aq_R]", "[]"), "series.0.where.baseline", "too_short"),
        (CURVE + PUBLISHED.format("A_R"), "", "published"),
        (CURVES + PUBLISHED.format("'3'"), "", "published"),
        (HISTOGRAM + "published: [{series: q = 1, source: here}]\n", "published.0", "fractions or peak"),
    ],
)
def test_a_mistake_is_refused_with_its_place(text, path, kind):
    assert problem(text) == (path, kind)


def test_panels_over_a_grid_have_defaults_for_what_seldom_differs():
    sizes = "name: n, rows: task.height, columns: task.width, split: q"
    cells, board = read(
        f"{{kind: cells, {sizes}, metric: first_visit}}",
        f"{{kind: board, {sizes.replace('n,', 'm,', 1)}, target: [5, 4], longest: task.horizon}}",
    )
    assert (cells.first, cells.seed, cells.limits) == (0, None, (None, None))
    assert (board.metric, board.boards, board.unit) == ("path", 3, 1)
    board = f"{{kind: board, {sizes}, target: [0, 4], longest: task.horizon}}"
    assert problem(board) == ("target.0", "greater_than_equal")


def test_names_that_would_share_a_file_are_refused():
    assert "'5a'" in problem(CURVE, HISTOGRAM.replace("5C", "5a"))[1]
