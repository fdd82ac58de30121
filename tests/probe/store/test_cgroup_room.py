"""The room below a memory limit: Python and the probe read it from the same files, of cgroups 1 and 2."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.native.compiler import compile_c
from harness.paths import PROBE
from offheap.proc import cgroup

MIB = 1 << 20
NONE_V1 = 9223372036854771712

Files = Mapping[str, Mapping[str, int | str]]


def v1(limit: int, usage: int, *, memsw: tuple[int, int] = (NONE_V1, 0), **stat: int) -> dict[str, int | str]:
    """A group of version 1; fields that `stat` does not name have the figures of the group alone."""
    lines = [f"{name} 1" for name in ("cache", "inactive_file", "active_file", "dirty")]
    lines += [f"total_{name} {value}" for name, value in stat.items()]
    return {
        "memory.limit_in_bytes": limit,
        "memory.usage_in_bytes": usage,
        "memory.memsw.limit_in_bytes": memsw[0],
        "memory.memsw.usage_in_bytes": memsw[1],
        "memory.use_hierarchy": 1,
        "memory.stat": "\n".join(lines),
    }


def v2(limit: int | str, usage: int, *, high: int | str = "max", **stat: int) -> dict[str, int | str]:
    lines = ["anon 7", "file 5", *(f"{name} {value}" for name, value in stat.items())]
    return {
        "memory.max": limit,
        "memory.high": high,
        "memory.current": usage,
        "memory.stat": "\n".join(lines),
    }


# /proc/self/cgroup, the files, and the expected result: (limit, left) in MiB, or None.
CASES: dict[str, tuple[str, Files, tuple[float, float] | None]] = {
    "version 1": (
        "9:name=systemd:/x\n4:memory:/app\n0::/\n",
        {"memory": v1(NONE_V1, 900 * MIB), "memory/app": v1(100 * MIB, 90 * MIB)},
        (100, 10),
    ),
    "no limit anywhere": ("4:memory:/app\n", {"memory": v1(NONE_V1, 9), "memory/app": v1(NONE_V1, 9)}, None),
    "a group above has less": (
        "4:cpu,memory:/pod/app\n",
        {
            "memory": v1(NONE_V1, 9),
            "memory/pod": v1(100 * MIB, 96 * MIB),
            "memory/pod/app": v1(90 * MIB, 50 * MIB),
        },
        (100, 4),
    ),
    "a group above that does not count for those below": (
        "4:memory:/pod/app\n",
        {
            "memory": v1(NONE_V1, 9),
            "memory/pod": {**v1(100 * MIB, 96 * MIB), "memory.use_hierarchy": 0},
            "memory/pod/app": v1(90 * MIB, 50 * MIB),
        },
        (90, 40),
    ),
    "page cache": (
        "4:memory:/app\n",
        {
            "memory/app": v1(
                100 * MIB, 95 * MIB, inactive_file=10 * MIB, active_file=8 * MIB, dirty=3 * MIB, writeback=MIB
            )
        },
        (100, 15),
    ),
    "files on tmpfs are no page cache that can be dropped": (
        "4:memory:/app\n",
        {"memory/app": v1(100 * MIB, 95 * MIB, cache=60 * MIB, shmem=60 * MIB, inactive_anon=60 * MIB)},
        (100, 5),
    ),
    "swap counts, too": (
        "4:memory:/app\n",
        {"memory/app": v1(100 * MIB, 20 * MIB, memsw=(110 * MIB, 104 * MIB))},
        (110, 6),
    ),
    "a container without a namespace": (
        "4:memory:/docker/0123/app\n",
        {"memory": v1(64 * MIB, 60 * MIB), "memory/app": v1(NONE_V1, 3)},
        (64, 4),
    ),
    "what is outside of the namespace": (
        "4:memory:/../other\n",
        {"memory": v1(64 * MIB, 50 * MIB)},
        (64, 14),
    ),
    "a namesake of what is outside of the namespace": (
        "4:memory:/../other\n",
        {"memory": v1(64 * MIB, 50 * MIB), "memory/other": v1(20 * MIB, 19 * MIB)},
        (64, 14),
    ),
    "a namesake two groups outside": (
        "0::/../../other/app\n",
        {"": v2(64 * MIB, 50 * MIB), "other/app": v2(20 * MIB, 19 * MIB), "app": v2(20 * MIB, 19 * MIB)},
        (64, 14),
    ),
    "version 2": (
        "0::/app\n",
        {"app": v2(100 * MIB, 70 * MIB), "": {"memory.stat": "anon 1"}},
        (100, 30),
    ),
    "version 2: a group above": (
        "0::/a/b/c\n",
        {"a": v2(200 * MIB, 199 * MIB), "a/b": v2("max", 5), "a/b/c": v2(100 * MIB, 70 * MIB)},
        (200, 1),
    ),
    "version 2: memory.high": (
        "0::/app\n",
        {"app": v2(100 * MIB, 70 * MIB, high=80 * MIB)},
        (80, 10),
    ),
    "version 2: page cache and slabs": (
        "0::/app\n",
        {
            "app": v2(
                100 * MIB,
                99 * MIB,
                inactive_file=20 * MIB,
                active_file=4 * MIB,
                file_dirty=2 * MIB,
                file_writeback=MIB,
                slab_reclaimable=6 * MIB,
            )
        },
        (100, 23),
    ),
    "version 2 beside version 1": (
        "4:pids:/x\n0::/app\n",
        {"unified/app": v2(50 * MIB, 45 * MIB)},
        (50, 5),
    ),
    "more used than the limit": ("0::/app\n", {"app": v2(50 * MIB, 55 * MIB)}, (50, 0)),
    "nonsense": (
        "0::/app\nx\n:::\n4:memory\n",
        {"app": {"memory.max": "many", "memory.current": "-1", "memory.stat": "\n \ninactive_file\n"}},
        None,
    ),
    "nothing at all": ("", {}, None),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prints the result of probe/platform/cgroup.c for the working directory."""
    return compile_c(
        [PROBE / "tests" / "cgroup_room.c"],
        tmp_path_factory.mktemp("cgroup") / "program",
        flags=['-DCGROUP_SELF="self"', '-DCGROUP_ROOT="."'],
    )


@pytest.mark.parametrize("case", CASES)
def test_both_read_the_same(case: str, program: Path, tmp_path: Path) -> None:
    text, groups, expected = CASES[case]
    for folder, files in groups.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (tmp_path / folder / name).write_text(f"{content}\n")
    (tmp_path / "self").write_text(text)
    room = cgroup.least_room(text, tmp_path)
    assert (room and (room.limit / MIB, room.left / MIB)) == expected

    printed = subprocess.run([program], check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    assert printed == ("none\n" if room is None else f"{room.limit} {room.left}\n")
