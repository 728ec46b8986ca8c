"""Questions to a store in SQL.

SQL may come from strangers: it can read the views of `sweeper.analysis.views` and nothing else. The database is in
memory, DuckDB's access to files, network, extensions and Python objects is switched off, its configuration is locked,
and only a single SELECT is run. (DuckDB may spill an intermediate result to a temporary folder of its own, which is
removed afterwards.) `outcomes` are scanned where they lie, so that a query reads the files of the trials it asks for
and no others.
"""

import concurrent.futures
import contextlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa

from sweeper.analysis.views import VIEWS
from sweeper.messages import UserError
from sweeper.store.store import OUTCOMES, Store
from sweeper.trial.entry_names import meant

if TYPE_CHECKING:
    import pyarrow.dataset as ds

ResultT = TypeVar("ResultT")

GRACE_SECONDS = 3.0
"""Seconds that interrupted work may take to end. Some functions of a database ignore interruptions until their end."""


class QueryError(UserError, ValueError):
    """A query that cannot be answered; the message is written for its author."""


def frame(sql: str, results: str | Path | Store = "results") -> pd.DataFrame:
    """The answer to one SELECT over the views of a store, or of the store at a folder or URL, as a pandas frame.

    A `QueryError` if the query is not a single SELECT, or names a view or column that does not exist, or the answer has
    values that pandas cannot hold; a `StoreError` if there is no store, or it cannot be read.
    """
    answer = table(sql, results)
    with converted():
        return answer.to_pandas()


@contextlib.contextmanager
def converted() -> Iterator[None]:
    """Values that Python or pandas cannot hold, such as dates after the year 9999, are mistakes of the query."""
    try:
        yield
    except (UserError, UnicodeError):
        raise
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise QueryError(f"the answer cannot be shown ({error}): cast the column, such as x::text") from error


def table(sql: str, results: str | Path | Store = "results", rows: int | None = None) -> pa.Table:
    """The answer to a query as an Arrow table, cut after `rows` rows if that is given; raises as `frame` does."""
    return Questions(results if isinstance(results, Store) else Store.existing(results)).table(sql, rows)


class Questions:
    """Queries to a store. Each view is made by the first query that names it, and shared by all later queries."""

    def __init__(self, store: Store):
        self._store = store
        self._rows: dict[str, pa.Table] = {}
        self._outcomes: tuple[ds.Dataset, list[str]] | None = None

    def table(self, sql: str, rows: int | None = None) -> pa.Table:
        with tempfile.TemporaryDirectory(prefix="sweeper-query-", ignore_cleanup_errors=True) as scratch:
            try:
                return self._answer(sql, scratch, rows)
            except duckdb.Error as error:
                if f"the stream registered as '{_STORED}' failed" not in str(error):
                    raise QueryError(f"{error}{self._hint(str(error))}") from error
            # A file is damaged, or was replaced since the store was listed. The other trials are still there to be
            # asked.
            self._store.verify()
            self._rows.clear()
            self._outcomes = None
            try:
                return self._answer(sql, scratch, rows)
            except duckdb.Error as error:
                raise QueryError(str(error)) from error

    def _answer(self, sql: str, scratch: str, rows: int | None) -> pa.Table:
        connection = duckdb.connect(config={"temp_directory": scratch})

        def fetched() -> pa.Table:
            with connection:
                if not _is_select(connection, sql):
                    expected = "expected one SELECT (or PIVOT, DESCRIBE, SUMMARIZE, SHOW TABLES)"
                    raise QueryError(f"{expected} over {', '.join(VIEWS)}")
                for name, view in VIEWS.items():
                    # A view that the text does not name is not used, and may take seconds to make.
                    used = re.search(rf"\b{name}\b", sql, re.IGNORECASE) is not None
                    if used and name == "outcomes":
                        self._make_outcomes(connection)
                        continue
                    if used and name not in self._rows:
                        self._rows[name] = view.rows(self._store)
                    connection.register(name, self._rows[name] if used else view.schema.empty_table())
                for setting in ("TimeZone='UTC'", *_LOCKS):
                    connection.execute(f"SET {setting}")
                # Of two columns of one name the second gets a number: pandas, polars and JSON need different names.
                relation = connection.sql(sql).select("*")
                return _narrowed((relation if rows is None else relation.limit(rows)).to_arrow_table())

        return interruptible(fetched, connection.interrupt)

    def _hint(self, message: str) -> str:
        """The end of DuckDB's message on a column that is not there: what the views have instead."""
        missing = re.search(r'column "(\w+)" not found', message, re.IGNORECASE)
        if missing is None or missing[1].lower() == "sweep":
            return _SWEEPS if missing else ""
        # DuckDB compares whole names, and does not find experiment_width for width.
        columns = dict.fromkeys(name for rows in self._rows.values() for name in rows.column_names)
        return meant(missing[1], columns)

    def _make_outcomes(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the view `outcomes`: the lists of each trial side by side, one row for every input."""
        if self._outcomes is None:
            self._outcomes = self._store.outcomes_dataset()
        dataset, names = self._outcomes
        connection.register(_STORED, dataset)
        lists = "".join(f", unnest(outcomes[{_text(name)}]) as {_name(name)}" for name in names)
        connection.execute(
            f"create view outcomes as select {', '.join(OUTCOMES.names[:-1])}, "
            f"unnest(range(len(map_values(outcomes)[1])))::int as input{lists} from {_STORED}"
        )


def _is_select(connection: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether a text is one statement that asks; raises `QueryError` if it is no text."""
    try:
        (statement,) = connection.extract_statements(sql)
        # MULTI is a PIVOT without a list of values, which DuckDB reads first. It is also an ALTER TABLE; there is no
        # table.
        return statement.type in (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)
    except ValueError:  # none or several, or of a type that Python's half of DuckDB does not know
        return False
    except TypeError:
        raise QueryError("the query is no text in UTF-8") from None


def condition(text: str) -> str:
    """The text in parentheses, for a WHERE clause; raises `QueryError` if it is more, or less, than one expression."""
    try:
        duckdb.SQLExpression(text)
    except (duckdb.Error, TypeError) as error:
        reason = str(error).splitlines()[0] if isinstance(error, duckdb.Error) else "it is no text in UTF-8"
        raise QueryError(f'--where takes one condition, such as "steps > 100 and seed = 0": {reason}') from None
    return f"(\n{text}\n)"


def chosen_ids(where: str, store: Store) -> list[str]:
    """Ids of the trials of the view `trials` that meet a condition."""
    return table(f"select trial_id from trials where {condition(where)}", store)["trial_id"].to_pylist()


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


_LOCKS = ("enable_external_access=false", "python_enable_replacements=false", "lock_configuration=true")
_STORED = "stored_outcomes"  # the outcomes as the files hold them, one row a trial
_SWEEPS = """

the view sweeps says which trials a sweep has, such as
  select avg(wall_seconds) from trials join sweeps using (trial_id) where sweep = 'x' and status = 'finished'"""


def _narrowed(answer: pa.Table) -> pa.Table:
    """The answer with DuckDB's 128-bit integers, such as sums, as 64-bit ones, or as doubles if they do not fit."""
    for place, field in enumerate(answer.schema):
        if pa.types.is_decimal(field.type) and field.type.scale == 0:
            try:
                narrow = answer.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                narrow = answer.column(place).cast(pa.float64())
            answer = answer.set_column(place, field.name, narrow)
    return answer


def interruptible(work: Callable[[], ResultT], interrupt: Callable[[], None]) -> ResultT:
    """The result of work in native code that Ctrl-C can end; raises what it raises.

    Python answers a signal between two of its own instructions, so a call into a database delays the answer until the
    call returns. Here the call runs in another thread, and the main thread, which gets the signals, only waits. When a
    signal raises an exception here, `interrupt` asks the work to end, and the exception goes on after the work, or
    after a few seconds.
    """
    future: concurrent.futures.Future[ResultT] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # belongs to the thread that waits
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()  # a pool's thread would keep the process alive
    try:
        concurrent.futures.wait([future])
    except BaseException:
        interrupt()
        concurrent.futures.wait([future], GRACE_SECONDS)
        raise
    try:
        return future.result()
    finally:
        del future  # the traceback of its error holds this frame, and would keep the database open
