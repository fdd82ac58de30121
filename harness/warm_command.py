"""`offheap` in a fork of a process that has its modules loaded: a command costs 0.1 s of CPU in place of 0.6.

The commands, their arguments, files and exit statuses are real; only the start of the interpreter and the
imports are shared.  What depends on those (encodings, signals, the first import, terminals) is tested by
`command_line.offheap`.
"""

from __future__ import annotations

import functools
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import forkserver, get_context
from pathlib import Path
from unittest import mock

import offheap

TIMEOUT = 120.0  # seconds: the longest command of the tests takes some seconds on a busy machine
_CONTEXT = get_context("forkserver")


def warm(
    *arguments: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `offheap` without a terminal and without input; `cwd` and `env` as of subprocess.run."""
    done = warm_bytes(*arguments, cwd=cwd, env=env)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def warm_bytes(
    *arguments: str | os.PathLike[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """The same with its output as it is."""
    words = [os.fspath(argument) for argument in arguments]
    variables = dict(os.environ if env is None else env)
    _start_server()
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        target = (words, os.fspath(cwd or Path.cwd()), variables, out.name, err.name)
        process = _CONTEXT.Process(target=_run, args=target)
        process.start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(["offheap", *words], TIMEOUT, out.read(), err.read())
        return subprocess.CompletedProcess(["offheap", *words], process.exitcode, out.read(), err.read())


@functools.cache
def _start_server() -> None:
    """Starts the process that has the modules; it ends with this process."""
    names = [module.name for module in pkgutil.walk_packages(offheap.__path__, "offheap.")]
    _CONTEXT.set_forkserver_preload([name for name in names if not name.endswith("__main__")])
    with mock.patch.dict(os.environ, OPENBLAS_NUM_THREADS="1"):  # a process with threads must not fork
        forkserver.ensure_running()


def _run(arguments: list[str], folder: str, variables: Mapping[str, str], out: str, err: str) -> None:
    """In the fork: becomes `python -m offheap`."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for path, number in ((out, 1), (err, 2)):
        descriptor = os.open(path, os.O_WRONLY)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = ["offheap", *arguments]
    runpy.run_module("offheap", run_name="__main__", alter_sys=True)
