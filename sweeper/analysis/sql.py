"""Questions to a store in SQL.

A query can read the views of `sweeper.analysis.views` and nothing else: the database is in memory, DuckDB's access to
files and to Python objects is switched off, and its configuration is locked. One temporary folder is open to it, for
intermediate results and for an answer that it writes as a file; the folder is removed afterwards. `outcomes` are
scanned where they lie, so that a query reads the files of the trials it asks for and no others. A query has DuckDB's
functions, and `standard_error`.
"""

import concurrent.futures
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa

from sweeper.analysis.views import VIEWS
from sweeper.messages import UserError
from sweeper.store.store import OUTCOMES, Store

FetchedT = TypeVar("FetchedT")

FORMATS = {"csv": "csv", "json": "json, array true", "parquet": "parquet"}
"""Formats of answers for programs, as DuckDB calls them."""

STANDARD_ERROR = "standard_error(x) as stddev_samp(x) / sqrt(count(x))"
"""Of an average over trainings; null of fewer than two. (DuckDB's `sem` takes the deviation of a whole population.)"""

_STORED = "stored_outcomes"  # the outcomes as the files hold them, one row a trial


class QueryError(UserError, ValueError):
    """A query that cannot be answered; the message is written for its author."""


class _Answer(NamedTuple):
    """The answer to a query before it is fetched, and the one folder that its connection may write to."""

    relation: duckdb.DuckDBPyRelation
    connection: duckdb.DuckDBPyConnection
    folder: str


def frame(sql: str, results: str | Path | Store = "results") -> pd.DataFrame:
    """The answer to a query over the views of a store, or of the store at a folder or URL, as a pandas frame.

    Lists are tuples, by which pandas can group.

    A `QueryError` if DuckDB does not take the query; a `StoreError` if there is no store, or it cannot be read.
    """
    answer = table(sql, results)
    # A sum of whole numbers is a decimal to DuckDB, with which pandas computes nothing.
    plain = [kept.with_type(pa.float64()) if pa.types.is_decimal(kept.type) else kept for kept in answer.schema]
    made = answer.cast(pa.schema(plain)).to_pandas()
    for kept in answer.schema:
        if pa.types.is_list(kept.type):
            made[kept.name] = pd.Series(list(map(_tuples, answer[kept.name].to_pylist())), made.index, object)
    return made


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def table(sql: str, results: str | Path | Store = "results", rows: int | None = None) -> pa.Table:
    """The answer to a query as an Arrow table, cut after `rows` rows if that is given; raises as `frame` does."""

    def fetched(answer: _Answer) -> pa.Table:
        relation = answer.relation if rows is None else answer.relation.limit(rows)
        return relation.select("*").to_arrow_table()  # of two columns of one name `select` numbers the second

    return _answered(sql, results, fetched)


def print_answer(sql: str, results: str | Path | Store, form: str) -> None:
    """Print the answer to a query in one of `FORMATS`; raises as `frame` does."""
    _answered(sql, results, lambda answer: _print(answer, form))


def print_table(answer: pa.Table, form: str) -> None:
    """Print a table in one of `FORMATS`."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        _print(_Answer(connection.from_arrow(answer), connection, folder), form)


def chosen_ids(where: str, store: Store) -> list[str]:
    """Ids of the trials of the view `trials` that meet a condition."""
    return table(f"select trial_id from trials where ({where}\n)", store)["trial_id"].to_pylist()


def _answered(sql: str, results: str | Path | Store, fetched: Callable[[_Answer], FetchedT]) -> FetchedT:
    store = results if isinstance(results, Store) else Store.existing(results)
    try:
        return _attempt(sql, store, fetched)
    except QueryError as error:
        if f"the stream registered as '{_STORED}' failed" not in str(error) or not store.verify():
            raise
    return _attempt(sql, store, fetched)  # a damaged file was set aside, and the other trials can still be asked


def _attempt(sql: str, store: Store, fetched: Callable[[_Answer], FetchedT]) -> FetchedT:
    with (
        tempfile.TemporaryDirectory(prefix="sweeper-query-", ignore_cleanup_errors=True) as folder,
        duckdb.connect(config={"temp_directory": folder}) as connection,
    ):

        def work() -> FetchedT:
            for name, view in VIEWS.items():
                # A view that the text does not name is not used, and may take seconds to make.
                used = re.search(rf"\b{name}\b", sql, re.IGNORECASE) is not None
                if used and name == "outcomes":
                    _make_outcomes(store, connection)
                else:
                    connection.register(name, view.rows(store) if used else view.schema.empty_table())
            connection.execute(f"create macro {STANDARD_ERROR}")
            connection.execute(
                f"SET TimeZone='UTC'; SET allowed_directories=[{_text(folder)}]; SET enable_external_access=false; "
                "SET python_enable_replacements=false; SET lock_configuration=true"
            )
            try:
                relation = connection.sql(sql)
                if relation is None:
                    raise QueryError(f"expected a SELECT over {', '.join(VIEWS)}")
                return fetched(_Answer(relation, connection, folder))
            except duckdb.Error as error:
                raise QueryError(str(error)) from error

        # Python answers Ctrl-C between two of its own instructions, and loses the exception in imports of C code and in
        # callbacks of the garbage collector. So views are made, and the database works, in a thread of their own.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            try:
                return pool.submit(work).result()
            except KeyboardInterrupt:
                after = pool.submit(int)  # which has its turn once the work has ended
                while not after.done():  # an interruption between two queries of the database is lost
                    connection.interrupt()
                    concurrent.futures.wait([after], 0.1)
                raise


def _make_outcomes(store: Store, connection: duckdb.DuckDBPyConnection) -> None:
    """Make the view `outcomes`: the lists of each trial side by side, one row for every input."""
    dataset, names = store.outcomes_dataset()
    connection.register(_STORED, dataset)
    lists = "".join(f", unnest(outcomes[{_text(name)}]) as {_name(name)}" for name in names)
    connection.execute(
        f"create view outcomes as select {', '.join(OUTCOMES.names[:-1])}, "
        f"unnest(range(len(map_values(outcomes)[1])))::int as input{lists} from {_STORED}"
    )


def _print(answer: _Answer, form: str) -> None:
    file = f"{answer.folder}/answer"
    answer.connection.register("answer", answer.relation)
    answer.connection.execute(f"copy answer to {_text(file)} (format {FORMATS[form]})")
    with open(file, "rb") as written:
        shutil.copyfileobj(written, sys.stdout.buffer)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'
