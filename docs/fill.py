"""`python -m docs.fill STORE FILE.md …`: writes the tables of these documents from a store.

A place for a table is a pair of comments; what stands between them is replaced:

    <!-- table: SELECT baseline, avg(success) FROM trials GROUP BY baseline -->
    <!-- end -->

    <!-- published: NAME 5A 5B -->
    <!-- end -->

The first is the answer to a query, in which `percent(x)` is the average of x in per cent and `average(x, digits)` the
average, both with "±" and the standard error over the rows, and the view `runs` is `trials` joined with `sweeps`. The
second has the published numbers of these panels beside the measured ones; names with spaces stand in quotes. `NAME` is
a recorded sweep, or the file of a search space: then the numbers are those of the trials that the space plans, and a
line below the table says what the store lacks. A comment may have several lines. Filling a filled file again changes
nothing.
"""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from sweeper.analysis import figures, sql
from sweeper.analysis.comparison import Comparison
from sweeper.analysis.report_sources import ReportError, sources
from sweeper.analysis.results import Results
from sweeper.analysis.table import markdown, values
from sweeper.messages import did_you_mean, nearest_name
from sweeper.space.problems import SearchSpaceError
from sweeper.store.store import Store, StoreError
from sweeper.tables import titled

_PLACE = re.compile(r"(<!-- (table|published): (.*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_BEGIN = re.compile(r"<!-- (?:table|published):")

_MACROS = """
create macro average(x, digits) as
    round(avg(x), digits)::varchar || coalesce(' ± ' || round(standard_error(x), digits)::varchar, '');
create macro percent(x) as average(100 * x, 1);
create view runs as select * from trials join sweeps using (trial_id);
"""


def filled(path: Path, results: str) -> tuple[str, int, int]:
    """The text of a Markdown file with every table made anew, how many it has, and how many of these are changed.

    Raises:
        ReportError: the file has no place for a table, or one without an end; or names what the store lacks, or asks
            what is no query. The message names the line.
    """
    text = path.read_text(encoding="utf-8")
    places = list(_PLACE.finditer(text))
    begun = list(_BEGIN.finditer(text))
    for place, begin in zip(places, begun, strict=False):
        if _BEGIN.search(place[4]) or place.start() != begin.start():
            raise ReportError(f"{_at(path, text, begin.start())}: the place for a table has no <!-- end -->")
    if len(begun) > len(places):
        raise ReportError(f"{_at(path, text, begun[len(places)].start())}: the place for a table has no <!-- end -->")
    if not places:
        raise ReportError(
            f"{path} has no place for a table, such as <!-- table: SELECT count(*) FROM trials --> <!-- end -->"
        )
    store = Store.existing(results)
    everything = Results.of_store(store)
    changed = 0
    pieces, end = [], 0
    for place in places:
        try:
            query = place[2] == "table"
            lines = _answer(store, place[3]) if query else _compared(store, everything, place[3])
        except (ReportError, SearchSpaceError, StoreError, sql.QueryError) as error:
            raise ReportError(f"{_at(path, text, place.start())}: {error}") from None
        made = "\n" + "\n".join(lines) + "\n\n"
        changed += made != place[4]
        pieces += [text[end : place.end(1)], made]
        end = place.start(5)
    return "".join([*pieces, text[end:]]), len(places), changed


def _at(path: Path, text: str, position: int) -> str:
    return f"{path}:{text.count(chr(10), 0, position) + 1}"


def _answer(store: Store, query: str) -> list[str]:
    """The lines of the answer to a query."""
    answer = sql.table(_MACROS + query, store)
    if not answer.num_rows:
        return ["The store has no such trial yet."]
    return markdown(titled(values(answer))).splitlines()


def _compared(store: Store, everything: Results, named: str) -> list[str]:
    """The lines of a table of published numbers, and what the store lacks of it."""
    try:
        name, *panels = shlex.split(named)
    except ValueError as error:
        raise ReportError(f"{named}: {error}") from None
    if name.endswith(".yaml"):
        (source,) = sources(store, everything, [Path(name)], [])
    else:
        (source,) = sources(store, everything, [], [name])
    declared = {panel.name: panel for panel in source.panels}
    numbers = []
    for panel in panels or declared:
        if panel not in declared:
            hint = did_you_mean(nearest_name(panel, declared))
            raise ReportError(f"the sweep {source.name} has no panel '{panel}'{hint} (known: {', '.join(declared)})")
        numbers += figures.drawing(declared[panel], source.results).compare()
    lines = markdown(_beside_each_other(numbers)).splitlines()
    return [*lines, "", f"{source.remark}."] if source.remark else lines


def _pair(number: Comparison) -> str:
    """Such as "84.4 ± 0.6 (88)", a miss in bold type, "- (88)" of what is not measured."""
    measured = "-" if number.measured is None else f"{number.measured:{'.1f' if number.percent else '.3g'}}"
    if number.error is not None:
        measured += f" ± {number.error:{'.1f' if number.percent else '.1g'}}"
    return f"{f'**{measured}**' if number.miss else measured} ({number.published:.3g})"


class _Cell(str):
    """Numbers in words, which stand on the right."""

    def __float__(self) -> float:
        return 0.0


def _beside_each_other(compared: Sequence[Comparison]) -> pd.DataFrame:
    """The published numbers of some panels, one row a metric of a series, one column a value of the horizontal axis.

    A cell is the measured number, in per cent where the panel draws per cent, with the published one in brackets; a
    miss is set in bold. The last column says how many training seeds are behind the row.
    """
    places = sorted({number.x for number in compared if number.x is not None})
    places += [None] * any(number.x is None for number in compared)
    rows: dict[tuple[str, str, str], dict[float | None, Comparison]] = {}
    for number in compared:
        rows.setdefault((number.panel, number.series, number.metric), {})[number.x] = number
    table = []
    for about, numbers in rows.items():
        cells = [_Cell(_pair(numbers[place])) if place in numbers else None for place in places]
        seeds = sorted({number.seeds for number in numbers.values() if number.seeds})
        table.append((*about, *cells, " to ".join(map(str, dict.fromkeys((*seeds[:1], *seeds[-1:]))))))
    heads = ["panel", "series", "metric", *("" if place is None else f"{place:g}" for place in places), "seeds"]
    return titled(pd.DataFrame(table, columns=heads, dtype=object))


if __name__ == "__main__":
    for document in map(Path, sys.argv[2:]):
        new, count, differing = filled(document, sys.argv[1])
        document.write_text(new, encoding="utf-8")
        print(f"{document}: {count} tables, {differing} of them changed")
