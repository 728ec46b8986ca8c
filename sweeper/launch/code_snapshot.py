"""A copy of the code for the workers of one start.

Workers import modules when they first need them, which may be hours after the start. They import from a copy that
stays as it is, so that a change of a task reaches no pack of a running sweep. The copy has the files of the project
(`sweeper.trial.project_files`) and this package. Workers on this machine find the copy by its path, and Ray ships it to
the nodes of a cluster when the driver connects: both have the same files, in the same working folder.

What the copy lacks would fail in every worker. So the plug-ins of the plan are loaded from it, and traced, while the
cluster starts and before there are workers.
"""

import collections
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sweeper.launch.job import SetupError
from sweeper.trial import plugins
from sweeper.trial.fingerprint import Code
from sweeper.trial.private_folder import private_folder
from sweeper.trial.project_files import ProjectFiles
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, used_plug_ins

MOST_BYTES = 450 * 2**20  # size of the largest copy: Ray ships at most 500 MiB, with what an archive adds


class CodeSnapshot(NamedTuple):
    """A copy of the code: the folder with the package `sweeper`, the copy of the project, and a digest of all files."""

    packages: Path
    project: Path
    digest: str

    def environment(self) -> dict[str, str]:
        """The part of the environment of a process that says where the code is."""
        # A project may have its packages in a folder such as `src`, where an installation finds them.
        inner = [Path(entry) for entry in sys.path if Path(entry).is_relative_to(plugins.PROJECT) and entry]
        copies = [self.project / path.relative_to(plugins.PROJECT) for path in inner]
        path = [str(self.packages), str(self.project), *map(str, filter(Path.is_dir, copies))]
        path += filter(None, [os.environ.get("PYTHONPATH")])
        return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(path)), plugins.PROJECT_VARIABLE: str(self.project)}

    @contextlib.contextmanager
    def loadable(self, trials: Sequence[Trial], code: Code, environment: Mapping[str, str]) -> Iterator[None]:
        """Load and trace the plug-ins of trials from this copy, in another process; once for every copy and plug-in.

        The process works while the body of the `with` runs, and the end waits for it. The environment is added to that
        of this process. A plug-in that cannot be loaded or traced, or a copy of other code than the start's, is a
        `SetupError`.
        """
        names = {kind: sorted(name for of, name in used_plug_ins(trials) if of == kind) for kind in plugins.KINDS}
        known = json.dumps([self.digest, code.model_dump(mode="json"), names, sys.version, sys.prefix])
        folder = private_folder("loaded-copies")
        mark = None if folder is None else folder / hashlib.sha256(known.encode()).hexdigest()[:20]
        if mark is not None and mark.exists():
            yield
            return
        with tempfile.TemporaryFile("w+") as plan:
            json.dump([names, [canonical(trial) for trial in trials], code.model_dump(mode="json")], plan)
            plan.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sweeper.packs.copy_check"],
                stdin=plan,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=self.project,
                env=os.environ | dict(environment) | self.environment() | {"JAX_PLATFORMS": "cpu"},
            )
        with process:
            try:
                yield
                printed, said = process.communicate()
            finally:
                process.kill()
        try:
            complaint = json.loads(printed.splitlines()[-1])["complaint"]
        except (IndexError, ValueError, TypeError, KeyError):  # a plug-in has ended the process
            last = (said.splitlines() or ["nothing said"])[-1]
            complaint = f"the process ended with {process.returncode}: {last}"
        if complaint is not None:
            there = str(complaint).replace(str(self.project), str(plugins.PROJECT))
            raise SetupError(f"workers cannot load what was planned: {there}")
        if mark is not None:
            with contextlib.suppress(OSError):
                mark.touch()


@contextlib.contextmanager
def code_snapshot() -> Iterator[CodeSnapshot]:
    """A copy that only this user can read; removed at the end. A `SetupError` if the copy cannot be made."""
    files = _files()
    with tempfile.TemporaryDirectory(prefix="sweeper-code-", ignore_cleanup_errors=True) as folder:
        packages = Path(folder).resolve()
        yield CodeSnapshot(packages, packages / "project", _copied(files, packages))


def _files() -> dict[str, Path]:
    """What the copy will have: every file by its path in the copy; a `SetupError` if these are too many bytes."""
    files = ProjectFiles(plugins.PROJECT)
    places = {plugins.PACKAGE: "sweeper"}
    if plugins.SHIPPED == plugins.ROOT != plugins.PROJECT:
        # In the layout of an installed package: with its plug-ins inside.
        places |= {plugins.SHIPPED / f"{kind}s": f"sweeper/{kind}s" for kind in plugins.KINDS}
    places[plugins.PROJECT] = "project"
    named: dict[str, Path] = {}
    sizes = collections.Counter[Path]()  # of what lies in the project
    for source, name in places.items():
        for file in files.below(source):
            if source == plugins.PROJECT and file.is_relative_to(plugins.PACKAGE):
                continue
            inner = file.relative_to(source)
            named[f"{name}/{inner}"] = file
            with contextlib.suppress(OSError):  # to copy the file says more
                sizes[source / inner.parts[0]] += file.stat().st_size
            if sizes.total() > MOST_BYTES:
                ((largest, size),) = sizes.most_common(1)
                raise SetupError(
                    f"{plugins.PROJECT} has more than {MOST_BYTES // 2**20} MiB, {size / 2**20:,.0f} MiB of them in "
                    f"{largest.name}, and workers get a copy: let git ignore what tasks do not read (.gitignore), and "
                    "let tasks read the rest from outside the project, by its full path"
                )
    return named


def _copied(files: Mapping[str, Path], packages: Path) -> str:
    """Make the copy; returns its digest."""
    digest, file = hashlib.sha256(), plugins.PROJECT
    try:
        (packages / "project").mkdir()
        for name, file in files.items():
            target = packages / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
            digest.update(f"{name}\n{target.stat().st_size}\n".encode())
            digest.update(target.read_bytes())
    except OSError as error:
        raise SetupError(
            f"{file} cannot be copied for the workers to {packages.parent} ({error.strerror or error}): let git ignore "
            "what tasks do not read (.gitignore), or let TMPDIR name a folder with room"
        ) from error
    return digest.hexdigest()
