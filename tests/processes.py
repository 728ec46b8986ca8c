"""Python in a process of its own, and a command in this one."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from sweeper.__main__ import app
from sweeper.trial import plugins
from tests.heartbeats import until


def python(
    *arguments: object,
    cwd: Path = plugins.ROOT,
    env: Mapping[str, str] = os.environ,
    check: bool = False,
    **variables: str,
) -> "subprocess.CompletedProcess[str]":
    """An ended process of Python with these arguments; `variables` are added to its environment."""
    command = [sys.executable, *map(str, arguments)]
    environment = {**env, **variables}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=check)


def told(*arguments: object, code: int = 0) -> Result:
    """What a command of the program answers, which ends with this exit code."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def refusal(*arguments: object) -> str:
    """The one line with which a command ends that makes no sense."""
    done = told(*arguments, code=2)
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1), done.output
    return done.output


@contextlib.contextmanager
def ctrl_c(when: Callable[[], Any]) -> Iterator[None]:
    """Ctrl-C in this process as soon as the condition holds, which must be while the block runs."""
    main = threading.main_thread().ident
    assert main is not None
    waiting = threading.Thread(target=lambda: until(when) and signal.pthread_kill(main, signal.SIGINT))
    waiting.start()
    yield
    waiting.join()


def complaints(stderr: str) -> list[str]:
    """What a program said on standard error, but for what it does meanwhile, which a busy machine makes it say."""
    return [line for line in stderr.splitlines() if not re.search(r" · (\d+ h )?(\d+ min )?(\d+ s)?$", line)]
