"""The figures at the end of a sweep: drawn, unless those in the results folder show the same rows already.

Drawing takes most of the time of a start that finds everything done. Beside its figures a start leaves `drawn.json`:
what it has drawn, and a digest of all that the figures depend on. This is the space, the rows, and the code that
computes and draws them. A row names the time of its run, so that other curves and outcomes make another row.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.local_files import LocalFiles
from sweeper.sweeps.sweep_plan import SweepPlan
from sweeper.trial import plugins
from sweeper.trial.provenance import Provenance, drawing_code

DRAWN = "drawn.json"


def figure_lines(plan: SweepPlan, rows: pa.Table) -> list[str]:
    """Draw the panels of a space from these rows of the store, and return lines with the files and with remarks."""
    spec, store, origin = plan.spec, plan.store, plan.origin
    if not spec.panels:
        return []
    local = isinstance(store.files, LocalFiles)
    folder = (Path(store.root) / "figures" if local else Path("figures").resolve()) / spec.name
    # Evaluations have rows of their own, which are not among those of the trials: their panels are always drawn.
    of_evaluations = any(panel.draws_evaluations for panel in spec.panels)
    digest = None if of_evaluations else _digest(spec, rows, origin)
    if digest is not None and (lines := _drawn(folder, digest)) is not None:
        return lines
    with contextlib.suppress(OSError):  # the record is of figures that this start draws over
        (folder / DRAWN).unlink()
    try:
        from sweeper.analysis import figures
        from sweeper.analysis.results import Results

        report = figures.draw(Results.of_store(store).only(rows["trial_id"].to_pylist()), spec.panels, folder)
    except Exception as error:  # the trials are committed, whatever is wrong with matplotlib or the folder
        return [f"no figures: {type(error).__name__}: {error}"]
    lines = [f"figure: {path}" for path in report.paths if path.suffix == ".png"]
    lines += [f"  {', '.join(panels)}: {line}" for panels, line in figures.note_lines(report.notes)]
    if digest is not None and not any(note.text.startswith(figures.FAILED) for note in report.notes):
        record = {"digest": digest, "files": _times(report.paths), "lines": lines}
        with contextlib.suppress(OSError):  # then the next start draws again
            (folder / DRAWN).write_text(json.dumps(record, indent=1))
    return lines


def _drawn(folder: Path, digest: str) -> list[str] | None:
    """The lines about the figures in a folder; None if these are not those that a start of this digest has left."""
    try:
        drawn = json.loads((folder / DRAWN).read_text())
        same = drawn["digest"] == digest and drawn["files"] == _times(folder / name for name in drawn["files"])
        return [str(line) for line in drawn["lines"]] if same else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _times(files: Iterable[Path]) -> dict[str, int]:
    """When files were written, by name: a report draws into the same folder."""
    return {path.name: path.stat().st_mtime_ns for path in files}


def _digest(spec: SweepSpec, rows: pa.Table, origin: Provenance) -> str:
    digest = hashlib.blake2b(digest_size=10)
    code = None if origin.code is None else origin.code.model_dump(mode="json")
    drawing = drawing_code(plugins.PACKAGE / "analysis")
    digest.update(json.dumps([spec.text, list(spec.overrides), code, drawing], sort_keys=True).encode())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    digest.update(sink.getvalue())
    return digest.hexdigest()
