"""The page of a store, opened from disk in a real headless Chromium.

Results are made up and committed to a real store; nothing is trained. Every page is watched while it loads: an error on
its console, or a request for anything but itself and the data inside it, fails the test.
"""

import contextlib
import copy
import json
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from sweeper.analysis import figures, page
from sweeper.analysis.comparison import Comparison
from sweeper.analysis.results import Results
from sweeper.store.store import Store
from sweeper.tables import table
from tests.analysis.chromium import PROGRAM, browser
from tests.analysis.made_up_figures import panel
from tests.analysis.test_page import HOSTILE, filled
from tests.results import PROVENANCE, failure, result

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        PROGRAM is None, reason="no page was opened: there is no chromium (on Debian: apt-get install chromium)"
    ),
]

PANELS = (
    panel(
        kind="curve", name="randomised", x="q", y={"percent": True}, metric="success", where={"task": "coloring"},
        series=[
            {"label": "$A_R$", "where": {"baseline": "Aq_R"}},
            {"label": "voted", "metric": "majority_30", "where": {"baseline": "Aq_R"}},
        ],
        published=[
            {"series": "$A_R$", "metric": "success", "source": "a made-up paper", "values": {3.0: 0.85, 1.0: 0.5}}
        ],
    ),
    panel(kind="curve", name="fixed", x="q", metric="success", where={"baseline": "Aq_r0"}, split="baseline"),
)  # fmt: skip


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def several() -> list:
    """Four trials of two tasks and two baselines, and one that failed."""
    return [
        result({"seed": 0}),
        result({"seed": 1}, metrics={"success": 0.6, "success_p5": 0.2}),
        result(
            {"baseline": "Aq_r0"}, metrics={"success": 0.9}, curves=[(100, "train_loss", 0.4), (200, "train_loss", 0.3)]
        ),
        result({"task": {"name": "recall", "keys": 4}}),
        failure({"seed": 2, "baseline": "AE_R"}, message="loss is not finite\nat step 7" + "x" * 5000),
    ]


class Written(NamedTuple):
    """A page, and the results behind it."""

    path: Path
    store: Store
    section: figures.FigureReport


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Written:
    """The page of a sweep with five of six trials done, and with a table of another module."""
    folder = tmp_path_factory.mktemp("ours")
    store = filled(folder / "store", *several(), missing=("f" * 20,))
    results = Results.of_store(store)
    section = figures.draw(results, PANELS, folder / "ours")
    rows = [{"baseline": "Aq_R", "smallest m": 10}, {"baseline": "Aq_r0", "smallest m": None}]
    guidance = table(rows, "Guidance")
    page.write(folder / "page.html", page.render(store, store.trials(), [section], [("", guidance)]))
    return Written(folder / "page.html", store, section)


def quiet(tab) -> bool:
    """Whether the page has raised nothing, broken no policy, and written nothing to the console."""
    return tab.methods("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled") == []


def opened(tab, path: Path, fragment: str = "") -> None:
    """Open a page, and see that it is quiet and whole."""
    url = path.as_uri()
    tab.open(url + fragment)
    assert quiet(tab)
    asked = {event["request"]["url"] for event in tab.methods("Network.requestWillBeSent")}
    assert [other for other in asked if not other.startswith("data:")] == [url]
    assert "could not be made" not in tab.run("document.body.textContent")


def drawn(tab) -> None:
    """Wait until all charts are as the menus and the filter say."""
    until = time.monotonic() + 60
    while tab.run("document.documentElement.dataset.drawn !== document.documentElement.dataset.asked"):
        assert quiet(tab)
        assert time.monotonic() < until
    assert quiet(tab)


def visible(tab, selector: str) -> list[str]:
    """First cell or title of what a reader sees of these elements."""
    script = "[...document.querySelectorAll(%s)].filter((e) => e.checkVisibility()).map((e) => e.innerText.trim())"
    return tab.run(script % json.dumps(selector))


def test_figures_tables_and_trials_are_there(tab, ours):
    opened(tab, ours.path)
    images = tab.run("[...document.images].map((image) => [image.naturalWidth, image.alt])")
    assert len(images) == 2
    assert all(width > 0 for width, _ in images)
    assert visible(tab, "#comparison tbody tr td:nth-child(7)") == ["", "67.5"]
    assert "2 published numbers, 1 measured, 1 missed" in tab.run("document.body.innerText")
    assert "voted: 'majority_30' was not measured" in tab.run("document.querySelector('figcaption').innerText")
    (sweep,) = visible(tab, "#sweeps tbody tr")
    assert sweep.split()[:7] == ["ours", "6", "4", "0", "1", "1", "1"]
    (message,) = visible(tab, "#failures td:last-child")
    assert message == "loss is not finite"
    assert "at step 7" in tab.run("document.querySelector('#failures pre').textContent")
    assert len(visible(tab, "#trial-rows tbody tr")) == 5
    assert visible(tab, "#table-1 td") == ["Aq_R", "10", "Aq_r0", ""]
    starts = tab.run("document.getElementById('starts').innerText")
    assert all(word in starts for word in ("c0ffeec0ff", "2026-01-02 03:04", "python -m sweeper.run"))


def test_the_filter_hides_and_shows(tab, ours):
    opened(tab, ours.path)
    assert visible(tab, "#filter legend") == ["Status", "Sweep", "Task", "Model", "Baseline"]
    click = "document.querySelector('#filter input[value=%s]').click()"
    tab.run(click % "Aq_r0")
    assert [text.split()[0] for text in visible(tab, "figcaption")] == ["fixed"]
    assert visible(tab, "#failed") == [], "a section without anything left"
    assert [text.split("\t")[5] for text in visible(tab, "#trial-rows tbody tr")] == ["Aq_r0"]
    assert visible(tab, "#failures tbody tr") == []
    assert visible(tab, "#table-1 td") == ["Aq_r0"], "a column without a value is hidden"
    assert visible(tab, "#shown") == ["1 of 2 figures, 1 of 5 trials"]
    # Within a group the choices add up; the groups restrict each other.
    tab.run(click % "Aq_R")
    assert len(visible(tab, "#trial-rows tbody tr")) == 4
    tab.run(click % "transformer")
    assert len(visible(tab, "figure")) == 2
    tab.run(click % "recall")
    assert visible(tab, "#shown") == ["0 of 2 figures, 1 of 5 trials"]
    # The address names the filter, so that a link does.
    fragment = tab.run("location.hash")
    tab.run("document.querySelector('#filter [type=reset]').click(), new Promise((done) => setTimeout(done, 20))")
    assert len(visible(tab, "#trial-rows tbody tr")) == 5
    assert visible(tab, "#shown") == [""]
    opened(tab, ours.path, fragment)
    assert len(visible(tab, "#trial-rows tbody tr")) == 1
    assert quiet(tab)


def test_rows_are_found_by_a_value_or_a_word_and_empty_columns_go(tab, ours):
    opened(tab, ours.path)
    search = "document.querySelector('#filter [type=search]')"
    find = "%s.value = %s, %s.dispatchEvent(new Event('input', { bubbles: true }))"

    def found(words: str) -> int:
        tab.run(find % (search, json.dumps(words), search))
        return len(visible(tab, "#trial-rows tbody tr"))

    assert "success" in visible(tab, "#trial-rows th")
    assert found("baseline=Aq_R") == 3
    assert found("baseline=Aq_R seed=1.0") == 1
    assert found("baseline=Aq_R coloring") == 2
    assert found("AE_R") == 1
    assert visible(tab, "#failed") != []
    assert "success" not in visible(tab, "#trial-rows th"), "a failed trial has none"
    assert found("finished") == 4
    assert tab.run("location.hash") == "#words=finished"


def test_the_keyboard_filters_and_sorts(tab, ours):
    opened(tab, ours.path)
    tab.run("document.querySelector('#filter input[value=AE_R]').focus()")
    tab.press("Space", 32)
    assert len(visible(tab, "#trial-rows tbody tr")) == 1
    tab.press("Space", 32)
    heads = visible(tab, "#trial-rows th")
    column = heads.index("success") + 1
    cells = f"#trial-rows td:nth-child({column})"
    tab.run(f"document.querySelector('#trial-rows th:nth-child({column}) button').focus()")
    tab.press("Enter", 13)
    assert visible(tab, cells) == ["60.0 %", "75.0 %", "75.0 %", "90.0 %", ""]
    tab.press("Enter", 13)
    # What is empty stays last.
    assert visible(tab, cells) == ["90.0 %", "75.0 %", "75.0 %", "60.0 %", ""]
    assert tab.run(f"document.querySelector('#trial-rows th:nth-child({column})').ariaSort") == "descending"


CHOOSE = """for (const [name, words] of Object.entries(%s)) {
    const menu = document.querySelector(`.menus [name=${name}]`);
    if (typeof words === "boolean") { menu.checked = words; }
    else { menu.value = [...menu.options].find((option) => option.text === words).value; }
    menu.dispatchEvent(new Event("input", { bubbles: true })); }"""


def choose(tab, **choices: str | bool) -> None:
    """Choose entries of the menus above the charts."""
    tab.run(CHOOSE % json.dumps(choices))
    drawn(tab)


def labels(tab, chart: str, role: str) -> list[str]:
    """Texts of a chart, such as those of its `legend-label`s or `axis-title`s."""
    texts = json.dumps(f"{chart} .role-{role} text")
    return tab.run(f"[...document.querySelectorAll({texts})].map((text) => text.textContent)")


def pointed(tab, chart: str, mark: str, number: int = 0) -> str:
    """What is said of a mark of a chart under the pointer."""
    place = f"""(() => {{ const marks = document.querySelectorAll('{chart} .{mark}.role-mark path');
        marks[{number}].scrollIntoView({{ block: "center" }});
        const box = marks[{number}].getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2, marks.length]; }})()"""
    x, y, _ = tab.run(place)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    return "".join(visible(tab, "#tip"))


def marks(tab, chart: str, mark: str) -> list[str]:
    """The colours of the marks of a chart, which are points of `mark-symbol`, or lines of `mark-line`."""
    look = "fill" if mark == "mark-symbol" else "stroke"
    paths = json.dumps(f"{chart} .role-mark.{mark} path")
    return tab.run(f"[...document.querySelectorAll({paths})].map((mark) => mark.getAttribute('{look}'))")


def test_any_column_is_drawn_against_any_other(tab, ours):
    opened(tab, ours.path)
    drawn(tab)
    assert labels(tab, "#explorer-chart", "axis-title") == ["q", "success"]
    assert len(marks(tab, "#explorer-chart", "mark-symbol")) == 4, "the failed trial has no success"
    choose(tab, x="steps", y="baseline", colour="status", log_x=True)
    assert labels(tab, "#explorer-chart", "axis-title") == ["steps", "baseline"]
    assert sorted(labels(tab, "#explorer-chart", "legend-label")) == ["failed", "finished"]
    assert len(marks(tab, "#explorer-chart", "mark-symbol")) == 5
    # The colours of values are those that their series have in the figures.
    choose(tab, x="seed", y="success", colour="baseline", log_x=False)
    assert "#d62728" in marks(tab, "#explorer-chart", "mark-symbol")
    said = pointed(tab, "#explorer-chart", "mark-symbol")
    ids = [row["trial_id"] for row in ours.store.trials().to_pylist()]
    assert any(f"trial: {one}\n" in said for one in ids)
    assert "baseline: " in said
    assert "success: " in said
    # The filter takes points away.
    tab.run("document.querySelector('#filter input[value=recall]').click()")
    drawn(tab)
    assert len(marks(tab, "#explorer-chart", "mark-symbol")) == 1
    assert quiet(tab)


def test_training_curves_are_bands_or_trials_and_logarithmic_or_not(tab, ours):
    opened(tab, ours.path)
    drawn(tab)
    assert visible(tab, ".chart h3") == ["ours: coloring", "ours: recall"]
    chart = '[data-chart="0"]'
    assert labels(tab, chart, "axis-title") == ["step", "train_loss"]
    assert labels(tab, chart, "legend-label") == ["AE_R q=1 m=2", "Aq_R q=3 m=2", "Aq_r0 q=3 m=1"]
    assert len(marks(tab, chart, "mark-line")) == 3
    ticks = labels(tab, chart, "axis-label")
    choose(tab, log=False)
    assert labels(tab, chart, "axis-label") != ticks
    choose(tab, mode="each trial")
    assert len(marks(tab, chart, "mark-line")) == 4
    said = [pointed(tab, chart, "mark-symbol", number) for number in range(3)]
    assert any("step: 100" in one and "value: 0.2" in one and "status: finished" in one for one in said)
    # The filter hides lines, and charts without any.
    tab.run("document.querySelector('#filter input[value=Aq_r0]').click()")
    drawn(tab)
    assert visible(tab, ".chart h3") == ["ours: coloring"]
    assert labels(tab, chart, "legend-label") == ["Aq_r0 q=3 m=1"]
    assert len(marks(tab, chart, "mark-line")) == 1
    assert quiet(tab)


def test_a_live_page_is_loaded_again_as_its_reader_left_it(tab, tmp_path, ours):
    path = tmp_path / "page.html"
    page.write(path, page.render(ours.store, ours.store.trials(), [ours.section], every=60))
    # The test says when the minute is over, and when the second after which a page that was busy looks again.
    hold = """{ const later = setTimeout; window.setTimeout = (look, time) =>
        time === 60000 ? (window.over = look) : time === 1000 ? (window.again = look) : later(look, time); }"""
    held = tab.call("Page.addScriptToEvaluateOnNewDocument", source=hold)
    tab.call("Emulation.setDeviceMetricsOverride", width=900, height=400, deviceScaleFactor=1, mobile=False)
    try:
        opened(tab, path)
        tab.run("document.querySelector('#filter input[value=coloring]').click()")
        choose(tab, mode="each trial", y="success_p5")
        tab.run("document.querySelector('#trial-rows th button').click()")
        tab.run("document.querySelector('#trial-rows th button').click()")
        tab.run("document.querySelector('#starts details').open = true")
        tab.run("document.getElementById('trials').scrollIntoView(), scrollBy(0, 137)")
        look = """[location.hash,
            ["mode", "y"].map((name) => document.querySelector(`[name=${name}]`).selectedOptions[0].text),
            document.querySelector("#starts details").open, document.querySelector("#trial-rows th").ariaSort,
            document.getElementById("trials").getBoundingClientRect().top,
            [...document.querySelectorAll("#trial-rows tbody tr")].map((row) => row.innerText)]"""
        before = tab.run(look)
        assert before[:4] == ["#task=coloring", ["each trial", "success_p5"], True, "descending"]
        assert -60 < before[4] < 0
        # Meanwhile the page has grown above the reader's place.
        guidance = table([{"baseline": "Aq_R"}] * 30, "Guidance")
        page.write(path, page.render(ours.store, ours.store.trials(), [ours.section], [("", guidance)], every=60))
        tab.events.clear()
        # Nothing is taken away from a reader who marks a text.
        tab.run("getSelection().selectAllChildren(document.querySelector('h1'))")
        # A page either loads itself at once or looks again later.
        assert tab.run("over(), typeof again") == "function"
        tab.run("getSelection().removeAllRanges(), again()")
        while not any(event["name"] == "load" for event in tab.methods("Page.lifecycleEvent")):
            with contextlib.suppress(RuntimeError):  # the page that was asked is gone
                tab.run("new Promise((done) => setTimeout(done, 50))")
        assert visible(tab, "#table-1-title") == ["Guidance"]
        drawn(tab)
        after = tab.run(look)
        assert after == [*before[:4], pytest.approx(before[4], abs=1), before[5]]
        assert quiet(tab)
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=held["identifier"])
        tab.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_never_wider_than_the_window_and_can_be_read_without_scripts(tab, ours, width):
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
    try:
        opened(tab, ours.path)
        drawn(tab)
        assert tab.run("document.documentElement.scrollWidth") <= width
        tab.call("Emulation.setScriptExecutionDisabled", value=True)
        opened(tab, ours.path)
        assert [len(visible(tab, seen)) for seen in ("#trial-rows tbody tr", "figure", "noscript")] == [5, 2, 1]
        assert visible(tab, "#filter") == []
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
        tab.call("Emulation.clearDeviceMetricsOverride")


def test_text_of_the_store_is_inert(tab, tmp_path, ours):
    provenance = PROVENANCE.model_copy(update={"command": HOSTILE, "commit": HOSTILE, "versions": {HOSTILE: HOSTILE}})
    changes = {"device": HOSTILE, "provenance": provenance}
    store = filled(
        tmp_path / "store",
        result({"seed": 1}, metrics={HOSTILE.translate(str.maketrans("", "", "{}")): 1.0}, **changes),
        failure({"seed": 2}, kind=HOSTILE, message=HOSTILE),
        text=f"# {HOSTILE}\ntrial: {{}}\n",
    )
    store.record_sweep(store.sweeps()[0].model_copy(update={"overrides": (HOSTILE,), "provenance": provenance}))
    hostile = copy.copy(ours.section.drawn[0])
    hostile.panel = hostile.panel.model_copy(update={"title": HOSTILE})
    listing = table([dict.fromkeys((HOSTILE, "task", "n"), HOSTILE)], HOSTILE, HOSTILE)
    comparison = Comparison("inputs", figures.plain(HOSTILE), HOSTILE, 0.5, 10.0, 20.0, 1, True, HOSTILE)
    section = ours.section._replace(
        name=HOSTILE,
        notes=(figures.Note("randomised", HOSTILE, HOSTILE), figures.Note("inputs", "", HOSTILE)),
        comparisons=(comparison, comparison._replace(measured=None)),
        drawn=(hostile, *ours.section.drawn[1:]),
    )
    page.write(tmp_path / "page.html", page.render(store, store.trials(), [section] * 2, [("", listing)]))
    opened(tab, tmp_path / "page.html", "#task=%3Cscript%3Ewindow.hit=3%3C/script%3E&=&task=")
    assert tab.run("window.hit") is None
    drawn(tab)
    assert tab.run("window.hit") is None
    assert tab.run("document.scripts.length") == 2, "the second script is Vega"
    assert tab.run("document.querySelectorAll('img[src=x]').length") == 0
    # All of it is there, as text.
    text = tab.run("document.body.textContent")
    assert text.count("window.hit = 1") >= 20
    assert "{{7*7}}" in text
    assert visible(tab, "footer")
