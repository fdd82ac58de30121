"""Connects to the socket on which a HotSpot JVM takes attach requests; makes the JVM listen if necessary.

A JVM opens /tmp/.java_pid<pid> (both as the JVM sees them) only on request: the client creates
a file .attach_pid<pid> there and sends SIGQUIT.  Without that file the same signal means a
thread dump, and without a handler it kills the JVM.  This module sends the signal only to a JVM
that waits for it.  A JVM that already listens prints a thread dump at a second signal, so
processes that wake the same JVM take turns.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from offheap.errors import UserError
from offheap.jvm.command_line import launch_options
from offheap.jvm.listener.owner import as_owner
from offheap.jvm.structures import vm_flags
from offheap.proc import maps, opening, status, threads
from offheap.proc.maps import Mapping
from offheap.proc.status import Status
from offheap.proc.time_limit import within

_T = TypeVar("_T")

# A JVM installs its handlers some 50-100 ms after exec.
HANDLER_SECONDS = 2.0
_AGAIN_SECONDS = 0.5
_POLL_SECONDS = 0.005
_LISTENER = "Attach Listener"  # the thread that a JVM starts at an attach request
_DISABLED = "DisableAttachMechanism"


class NoProcess(UserError):
    """There is no such process."""

    def __init__(self, pid: int, what: str = "") -> None:
        super().__init__(what or f"there is no process {pid}", "`offheap ps` lists the JVMs of this machine")


class TargetGone(NoProcess):
    """The process has ended; another process may have its PID."""

    def __init__(self, pid: int, doing: str) -> None:
        super().__init__(pid, f"PID {pid} ended while offheap was {doing}")


def refresh(before: Status, doing: str) -> Status:
    """The same process's status now; TargetGone when it has ended, even if another process has its PID."""
    try:
        now = status.read(before.pid)
    except ProcessLookupError:
        raise TargetGone(before.pid, doing) from None
    if now.start_ticks != before.start_ticks or not now.alive:
        raise TargetGone(before.pid, doing)
    return now


def refuse_stopped(target: Status) -> None:
    """UserError for a stopped process: it does not answer, and a pending SIGQUIT dumps its threads later."""
    if target.state in "Tt":
        how = "stopped" if target.state == "T" else "held by a debugger"
        raise UserError(
            f"PID {target.pid} is {how} and cannot answer",
            f"continue it first: kill -CONT {target.pid}"
            if target.state == "T"
            else "detach the debugger first",
        )


def refuse_disabled(target: Status, mappings: Sequence[Mapping], said: bool | None = None) -> None:
    """UserError under -XX:+DisableAttachMechanism, where SIGQUIT makes the JVM print a thread dump.

    `said`: whether the JVM's hsperfdata says that it takes requests; None if there is no hsperfdata.
    """
    if said is None:
        disabled = vm_flags.is_set(target.pid, mappings, _DISABLED)
        # The JVM installs its handler only after it has read its options.
        if disabled is None or not (disabled or target.catches(signal.SIGQUIT)):
            disabled = launch_options.switches(target.pid, _DISABLED)[-1:] == [True]
    else:
        disabled = not said
    if disabled:
        raise UserError(
            f"PID {target.pid} refuses attach requests: it runs with -XX:+{_DISABLED}",
            "start it without that option, or under the probe with `offheap run`",
        )


def connect(target: Status, seconds: float) -> socket.socket:
    """A connection to the JVM's attach listener, for one request, within `seconds`."""
    deadline = time.monotonic() + seconds
    directory = _open_directory(target)
    try:
        listening = _try_connect(target, directory, deadline, remove_stale=True)
        if listening:
            return listening
        with _turn(target, deadline):
            # Another offheap may have woken the JVM since the first try.
            listening = _try_connect(target, directory, deadline, remove_stale=True)
            return listening or _wake(target, directory, deadline)
    finally:
        os.close(directory)


@contextmanager
def _turn(target: Status, deadline: float) -> Iterator[None]:
    """Waits until no other offheap, of any user, wakes this JVM.

    The lock is on a file of the process in /proc: it leaves nothing behind and ends with its holder.
    Only root and the process's own user can open that file; any user could lock the folder.
    """
    try:
        held = os.open(f"/proc/{target.pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:  # a process with more rights than its user cannot be locked
        yield
        return
    except (FileNotFoundError, ProcessLookupError):
        raise TargetGone(target.pid, "attaching") from None
    try:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                refresh(target, "attaching")
                if time.monotonic() > deadline:
                    raise UserError(
                        f"PID {target.pid} is still being attached to by another process",
                        "end that process, or try again later",
                    ) from None
                time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(held)


def _open_directory(target: Status) -> int:
    """The JVM's /tmp as a descriptor, which stays valid after this thread takes the JVM's user id."""
    # HotSpot ignores TMPDIR and java.io.tmpdir here.
    # A link in a container would lead to files of this mount namespace.
    for path, follow in ((f"/proc/{target.pid}/root/tmp", False), ("/tmp", True)):
        # A process with more capabilities refuses entry; it usually shares this process's /tmp.
        with suppress(OSError):
            return opening.folder(path, follow=follow)
    refresh(target, "looking for its attach socket")
    raise UserError(
        f"the /tmp of PID {target.pid} cannot be entered", "run offheap as root, or inside its container"
    )


def _in_time(directory: int, call: Callable[[int], _T]) -> _T:
    """A call on the JVM's /tmp, whose file system may not answer: then TimeoutError."""

    def run() -> _T:
        # A descriptor of its own: an abandoned call goes on after `connect` has closed the other.
        own = os.dup(directory)
        try:
            return call(own)
        finally:
            os.close(own)

    return within(opening.SECONDS, run)


def _unlink(directory: int, name: str) -> None:
    _in_time(directory, lambda own: os.unlink(name, dir_fd=own))


def _socket_name(target: Status) -> str:
    return f".java_pid{target.namespace_pid}"


def _try_connect(
    target: Status, directory: int, deadline: float, *, remove_stale: bool
) -> socket.socket | None:
    """None when the JVM does not listen yet."""
    name = _socket_name(target)
    try:
        found = _in_time(directory, lambda own: os.stat(name, dir_fd=own, follow_symlinks=False))
    except TimeoutError:
        raise UserError(
            f"the /tmp of PID {target.pid} does not answer", "try again when its file system does"
        ) from None
    except OSError:
        return None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid not in (target.uid, 0):
        # Any user can put a file in /tmp; the JVM replaces it when it starts to listen.
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The path through the descriptor fits sun_path and reaches other mount namespaces.
        _connect(connection, target, directory, deadline)
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        listener = struct.unpack("3i", credentials)[0]
        # 0: the listener is in a PID namespace that is not visible from here.
        if listener not in (0, target.pid):
            connection.close()
            return None
        return connection
    except (ConnectionRefusedError, FileNotFoundError):
        # A killed JVM with the same PID left this socket.
        connection.close()
        if remove_stale:
            with suppress(OSError):
                _unlink(directory, name)
        return None
    except PermissionError:
        connection.close()
        if found.st_uid != target.uid:
            # A killed JVM of root with the same PID left this socket: a running JVM's belongs to its user.
            if remove_stale:
                with suppress(OSError):
                    _unlink(directory, name)
                    return None
            raise UserError(
                f"cannot attach to PID {target.pid}: {name} in its /tmp belongs to a JVM that has ended",
                "remove it, as root",
            ) from None
        raise UserError(
            f"PID {target.pid} (user {target.user}) does not let this user attach",
            f"run offheap as {target.user} or as root",
        ) from None
    except BaseException:
        connection.close()
        raise


def _connect(connection: socket.socket, target: Status, directory: int, deadline: float) -> None:
    """connect(2) with a deadline: the plain call waits for ever when the queue of requests is full."""
    connection.setblocking(False)

    def connect(own: int) -> None:
        with as_owner(target):
            connection.connect(f"/proc/self/fd/{own}/{_socket_name(target)}")

    while True:
        with suppress(BlockingIOError):
            _in_time(directory, connect)
            return
        refuse_stopped(refresh(target, "attaching"))
        if time.monotonic() > deadline:
            raise UserError(
                f"PID {target.pid} takes no more attach requests: those before have no answer yet",
                "it may be in a long pause: try again later",
            )
        time.sleep(_POLL_SECONDS)


def _wake(target: Status, directory: int, deadline: float) -> socket.socket:
    """Leaves the attach file and sends SIGQUIT; returns a connection as soon as the JVM listens."""
    listening = _await_handler(target, directory, min(deadline, time.monotonic() + HANDLER_SECONDS))
    if listening:
        return listening
    refuse_disabled(refresh(target, "attaching"), _mappings(target))
    name = _create_trigger(target, directory)
    try:
        _signal(target)
        again, listener_seen = time.monotonic() + _AGAIN_SECONDS, False
        while (connection := _try_connect(target, directory, deadline, remove_stale=False)) is None:
            now = time.monotonic()
            if now > deadline:
                refuse_stopped(refresh(target, "attaching"))
                raise UserError(
                    f"PID {target.pid} did not answer the attach request in time",
                    "it may be in a long pause: try again later, or start it with `offheap run`",
                )
            if now > again:
                # A starting JVM may remove its own socket as an earlier JVM's, so the signal is repeated, but
                # only if the listener thread exists.  Without that thread the first signal is still pending,
                # and a second one makes the JVM print its threads.
                if listener_seen:
                    _signal(target)
                    again = deadline
                else:
                    listener_seen = _has_listener(target)
                    again = now + _AGAIN_SECONDS
            refresh(target, "attaching")
            time.sleep(_POLL_SECONDS)
        return connection
    finally:
        with suppress(OSError):
            _unlink(directory, name)


def _mappings(target: Status) -> list[Mapping]:
    try:
        return maps.read(target.pid)
    except PermissionError:
        return []
    except ProcessLookupError:
        raise TargetGone(target.pid, "attaching") from None


def _has_listener(target: Status) -> bool:
    with suppress(ProcessLookupError):
        return _LISTENER in threads.names(target.pid).values()
    return False


def _await_handler(target: Status, directory: int, deadline: float) -> socket.socket | None:
    """Waits until SIGQUIT has a handler: the signal ends a process without one.

    Under -Xrs there is never a handler, but the JVM listens from its start: returns that connection.
    """
    while not target.catches(signal.SIGQUIT):
        if time.monotonic() > deadline:
            raise UserError(
                f"PID {target.pid} takes no attach requests: no socket, and no handler for SIGQUIT",
                "it may be starting: try again, or start it with `offheap run`",
            )
        refuse_stopped(target)
        time.sleep(_POLL_SECONDS)
        target = refresh(target, "waiting for it to start")
        connection = _try_connect(target, directory, deadline, remove_stale=False)
        if connection:
            return connection
    return None


def _signal(target: Status) -> None:
    current = refresh(target, "attaching")
    refuse_stopped(current)
    if not current.catches(signal.SIGQUIT):
        return
    try:
        os.kill(target.pid, signal.SIGQUIT)
    except ProcessLookupError:
        raise TargetGone(target.pid, "attaching") from None
    except PermissionError:
        raise UserError(
            f"PID {target.pid} belongs to {target.user}: this user may not signal it",
            f"run offheap as {target.user} or as root",
        ) from None


def _create_trigger(target: Status, directory: int) -> str:
    """Makes .attach_pid<pid> in the JVM's /tmp and returns its name.

    The JVM also searches its working directory, which jcmd prefers.  But a starting JVM works in
    /tmp/hsperfdata_USER for a moment and deletes unknown files there; and a JVM that cannot write
    to /tmp cannot create its socket either.
    """
    name = f".attach_pid{target.namespace_pid}"
    flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC

    def create(own: int) -> None:
        with as_owner(target):  # the JVM ignores files of other users
            with suppress(FileNotFoundError):  # a file of an earlier attempt, or a trap
                os.unlink(name, dir_fd=own)
            os.close(os.open(name, flags, 0o600, dir_fd=own))

    try:
        _in_time(directory, create)
    except OSError as error:
        refresh(target, "attaching")
        raise UserError(
            f"cannot attach to PID {target.pid}: cannot create a file in its /tmp ({error.strerror})",
            "make its /tmp writable, or start it with `offheap run`",
        ) from None
    return name
