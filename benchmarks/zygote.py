"""Worker processes that share the memory of their imports, for `benchmarks.workers`.

A zygote is a process that has imported all that a worker imports, and forks a worker whenever it is asked to. A fork
shares the pages of the zygote until one of the two writes to them, so more workers fit into the memory of a machine.
For measurements only: a fork has the zygote's random state in Ray's native code.

Ray starts `command` as its Python. That process asks the zygote, whose child runs what Ray wanted, and then becomes
`cat`, which ends when the child closes its end of their connection.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

IDENTIFIERS = 5000
"""Random identifiers that the zygote skips before every fork, so that forks do not draw the same ones."""


class Zygote(contextlib.AbstractContextManager["Zygote"]):
    """A zygote, which ends with the context.

    Attributes:
        command: What Ray is to start as its Python.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zygote-")
        self._socket = os.path.join(self._folder.name, "socket")
        self._process: subprocess.Popen[bytes] | None = None
        self.command = f"{sys.executable} -I -S {os.path.abspath(__file__)} {self._socket}"

    def start(self) -> None:
        """Start the zygote with the environment of a worker of the running Ray: native code reads it at import."""
        import ray  # not at the top: the process that Ray starts as its Python finds no packages

        @ray.remote(num_cpus=0, runtime_env={"py_executable": sys.executable})
        def environment() -> dict[str, str]:
            return dict(os.environ)

        # One malloc arena: each thread of a fork would otherwise get pages of its own.
        variables = ray.get(environment.remote()) | {"MALLOC_ARENA_MAX": "1"}
        self._process = subprocess.Popen([sys.executable, "-m", "benchmarks.zygote", self._socket], env=variables)
        while not os.path.exists(self._socket):
            assert self._process.poll() is None, "the zygote ended"
            time.sleep(0.05)

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


def _serve(path: str) -> None:
    """Fork a worker for every connection."""
    import gc
    import runpy
    import signal

    # What a worker imports: for its start, for the values that it gets, and to read a pack.
    import pyarrow.json  # noqa: F401
    import pydantic.v1  # noqa: F401
    import ray
    import ray._private.arrow_serialization
    import ray._private.workers.default_worker

    import sweeper.launch.tune_worker  # noqa: F401
    from benchmarks.packs import TRIAL
    from sweeper.trial.trial_spec import TrialSpec

    TrialSpec.model_validate(TRIAL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks leave no zombies
    gc.collect()
    gc.freeze()  # a collection in a fork would write to all objects
    server = socket.socket(socket.AF_UNIX)
    server.bind(path + ".new")
    server.listen(1024)
    os.rename(path + ".new", path)
    while True:
        connection, _ = server.accept()
        arguments, variables, folder = json.loads(connection.makefile("rb").readline())
        for _ in range(IDENTIFIERS):
            ray.ObjectRef.from_random()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            os.environ.clear()
            os.environ.update(variables)
            os.chdir(folder)
            sys.argv = arguments
            runpy.run_path(arguments[0], run_name="__main__")
            os._exit(0)
        connection.close()


def _ask(path: str, arguments: list[str]) -> None:
    """Have the zygote run a script, and wait for its end."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(json.dumps([arguments, dict(os.environ), os.getcwd()]).encode() + b"\n")
    os.dup2(connection.fileno(), 0)
    os.execvp("cat", ["cat"])  # noqa: S606  no shell is needed


if __name__ == "__main__":
    socket_path, *rest = sys.argv[1:]
    if rest:
        _ask(socket_path, rest)
    else:
        _serve(socket_path)
