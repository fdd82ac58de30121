"""Logs of single allocations, as glibc's mtrace and heaptrack wrote them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import needs
from harness.command_line import run_offheap
from harness.recordings.imported_profiles import SAMPLES, check, held_by, stacks_of
from offheap.errors import UserError
from offheap.formats.imported import source
from offheap.formats.imported.events import columns, heaptrack, live_blocks, mtrace
from offheap.proc import maps
from offheap.recording.model import Frame

MTRACE = SAMPLES / "mtrace.log"
HEAPTRACK = SAMPLES / "heaptrack.zst"


def log(folder: Path, text: str) -> Path:
    path = folder / "log"
    path.write_text(text)
    return path


def test_what_mtrace_left_live() -> None:
    """GIVEN a log of 21 blocks that were never freed THEN each is a row, by caller, without realloc's old
    ones.
    """
    profile = check(mtrace.read([MTRACE]))
    assert len(profile.live) == 21
    assert held_by(profile, "make_block") == (19, 2087)
    assert held_by(profile, "grow") == (1, 1024)
    assert held_by(profile, "main") == (1, 777)
    assert profile.series["allocated_blocks"].sum() == 37
    assert not profile.births
    (_, frames), *_ = stacks_of(profile, "make_block")
    assert frames[0] == Frame("make_block", "native", "kept_blocks")
    assert frames[1].kind == "unknown"
    assert frames[1].name.endswith("call at make_block+0xe")


@pytest.mark.parametrize(
    ("caller", "name", "module"),
    [
        ("@ /opt/a b:c/lib x.so:(_ZN3foo3barEv+0x1c)[0x7f0011223344] ", "foo::bar()", "lib x.so"),
        ("@ libz.so.1:(inflateInit2_-4)[0x1234] ", "inflateInit2_", "libz.so.1"),
        ("@ /usr/lib/libz.so.1:[0x1234] ", "libz.so.1+0x1234", "libz.so.1"),
        ("@ /usr/lib/libz.so.1:[0x7f0011223344] ", "0x7f0011223344", "libz.so.1"),
        ("@ [0x7f0011223344] ", "0x7f0011223344", ""),
        ("", "caller not in mtrace's log", ""),
    ],
)
def test_callers(caller: str, name: str, module: str, tmp_path: Path) -> None:
    profile = check(mtrace.read([log(tmp_path, f"= Start\n{caller}+ 0x10 0x20\n= End\n")]))
    assert (profile.frames[0].name, profile.frames[0].module) == (name, module)
    assert profile.live["size"].tolist() == [32]


def test_what_a_log_lacks_is_said(tmp_path: Path) -> None:
    """GIVEN frees of unknown blocks, an address twice, failed calls, a last line that is cut
    THEN the figures are of the rest, and the sentences say so."""
    path = log(
        tmp_path,
        "= Start\n@ a:[0x1] - 0x99\n@ a:[0x1] + 0x10 0x8\n@ a:[0x1] + 0x10 0x9\n"
        "@ a:[0x1] + (nil) 0xffffffffffffffff\n@ a:[0x1] - (nil)\n@ a:[0x1] ! 0x10 0x100000000000\n"
        "@ a:[0x1] < 0x10\n@ a:[0x1] > 0x20 0\n@ a:[0x1] + 0x30 0x1",
    )
    profile = check(mtrace.read([path]))
    assert profile.live["size"].tolist() == [0]
    doubts = "\n".join(profile.lacks)
    assert "ends inside a line" in doubts
    assert "frees 1 blocks" in doubts
    assert "lacks the free of 1 blocks" in doubts


def test_a_line_that_is_not_mtrace_s_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"log, line 3: not a line of mtrace's: '@ a:\[0x1\] \* 0x10'"):
        mtrace.read([log(tmp_path, "= Start\n@ a:[0x1] + 0x10 0x8\n@ a:[0x1] * 0x10\n")])


def test_copies_of_a_growing_log_are_a_series(tmp_path: Path) -> None:
    """GIVEN copies of one log, made 60 s apart THEN each is a moment; without times the order counts."""
    lines = MTRACE.read_text().splitlines(keepends=True)
    paths = []
    for number, count in enumerate((5, 20, len(lines))):
        paths.append(tmp_path / f"{number}.log")
        paths[-1].write_text("".join(lines[:count]))
        os.utime(paths[-1], (1_700_000_000 + 60 * number,) * 2)
    profile = check(mtrace.read(paths))
    assert profile.start == 1_700_000_000
    assert profile.process["time"].tolist() == [0, 60, 120]
    assert profile.process["live_blocks"].tolist() == [4, 19, 21]
    for path in paths:
        os.utime(path, (1_700_000_000,) * 2)
    profile = check(mtrace.read(paths))
    assert profile.process["time"].tolist() == [0, 1, 2]
    assert any("do not ascend" in sentence for sentence in profile.lacks)


def test_batches_give_what_one_batch_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mtrace.read([MTRACE])
    monkeypatch.setattr(live_blocks, "_BATCH", 1)
    monkeypatch.setattr("offheap.formats.imported.source.PART", 100)
    parts = check(mtrace.read([MTRACE]))
    assert parts.live["size"].tolist() == whole.live["size"].tolist()
    for function in ("make_block", "grow", "main"):
        assert held_by(parts, function) == held_by(whole, function)


LONG = st.integers(2000, 2100).map(lambda size: "a" * size)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(alphabet="ab\0", max_size=40) | LONG, max_size=40))
def test_fields_are_equal_where_their_bytes_are(fields: list[str]) -> None:
    """GIVEN fields of equal letters, lengths and words THEN each different one has its own number."""
    encoded = [field.encode() for field in fields]
    block = np.frombuffer(b"".join(encoded) + b"\n", np.uint8)
    lengths = np.array([len(field) for field in encoded], np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    known: list[bytes] = []

    def number(field: bytes) -> int:
        known.append(field)
        return len(known) - 1

    numbers = columns.distinct(block, starts, ends, number)
    assert [known[one] for one in numbers.tolist()] == encoded
    assert len(known) == len(set(encoded))


def test_two_changes_that_cancel_in_a_sum_are_told_apart() -> None:
    """GIVEN fields that differ in the same byte of two words THEN no two are one."""
    fields = [bytes(7) + bytes([a]) + bytes(7) + bytes([b]) for a in range(64) for b in range(64)]
    block = np.frombuffer(b"".join(fields) + b"\n", np.uint8)
    starts = np.arange(len(fields), dtype=np.int64) * 16
    numbers = columns.distinct(block, starts, starts + 16, fields.index)
    assert numbers.tolist() == list(range(len(fields)))


def test_heaptrack_over_time() -> None:
    """GIVEN a program that keeps a block each 20 ms for 2 s THEN its stack grows in the series, and what was
    freed at once does not."""
    profile = check(heaptrack.read([HEAPTRACK]))
    assert held_by(profile, "keep_one") == (100, 100_000)
    assert held_by(profile, "use_one") == (0, 0)
    ((number, frames),) = stacks_of(profile, "keep_one")
    assert frames[0].file.endswith("growing.c")
    assert [frame.name for frame in frames[:2]] == ["keep_one", "main"]
    rows = profile.series[profile.series["stack"] == number]
    assert len(rows) >= 10
    assert 1.9 <= rows["time"][-1] <= 4
    assert (rows["live_bytes"] == 1000 * rows["live_blocks"]).all()
    assert profile.process["rss_bytes"][-1] > 1 << 20
    assert profile.program == "./growing"


def test_heaptrack_by_gzip_and_plain(tmp_path: Path) -> None:
    text = source.whole(HEAPTRACK)
    plain, gzipped = tmp_path / "plain", tmp_path / "gzipped.gz"
    plain.write_bytes(text)
    gzipped.write_bytes(gzip.compress(text[:200]) + gzip.compress(text[200:]))
    expected = heaptrack.read([HEAPTRACK])
    for path in (plain, gzipped):
        assert heaptrack.recognises(source.plain(path.read_bytes()))
        found = check(heaptrack.read([path]))
        assert found.series.tolist() == expected.series.tolist()


def test_long_heaptrack_recordings_have_bounded_snapshots(tmp_path: Path) -> None:
    """GIVEN events of an hour THEN at most 240 snapshots, and their sum is the sum of the events."""
    lines = ["v 10400 3", "X a", "I 1000 100", "s 1 f", "i 1 0 1 0 0", "t 1 0", "a 10 1"]
    for second in range(3600):
        lines += ["+ 0", f"c {second * 1000:x}", "R 5"]
    profile = check(heaptrack.read([log(tmp_path, "\n".join(lines) + "\n")]))
    assert 60 <= len(profile.process) <= 240
    assert held_by(profile, "f") == (3600, 16 * 3600)
    assert 3590 <= profile.process["time"][-1] <= 3600


def test_attached_heaptrack_begins_anew(tmp_path: Path) -> None:
    lines = ["v 10400 3", "X a", "s 1 f", "i 1 0 1 0 0", "t 1 0", "a 10 1", "+ 0", "+ 0", "A", "+ 0", "c 1"]
    profile = check(heaptrack.read([log(tmp_path, "\n".join(lines) + "\n")]))
    assert held_by(profile, "f") == (1, 16)
    assert heaptrack.ATTACHED in profile.lacks


@pytest.mark.parametrize(
    "line", ["+ 1", "+ x", "- 0", "t 2 0", "t 1 9", "a 1", "i 1 99", "c", "? 1", "a -1 1"]
)
def test_a_line_that_is_not_heaptrack_s_is_named(line: str, tmp_path: Path) -> None:
    path = log(tmp_path, f"v 10400 3\nX a\ns 1 f\ni 1 0 1 0 0\nt 1 0\na 10 1\n{line}\n")
    with pytest.raises(UserError, match=r"line 7: (not a line of heaptrack's|frees a block)"):
        heaptrack.read([path])


@pytest.mark.parametrize("part", [source.PART, 24, 8])
def test_a_free_too_many_has_its_line(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN two stacks, of which the second one frees too many first, in parts of any length."""
    tables = ["v 10400 3", "X a", "s 1 f", "s 1 g", "i 1 0 1", "i 2 0 2", "t 1 0", "t 2 0"]
    tables += ["a 10 1", "a 20 1", "a 10 2"]
    # Line 12: what is before the attaching is void.
    events = ["- 0", "- 2", "A", "+ 0", "+ 2", "- 1", "c 64", "- 2", "+ 1", "- 2", "- 0", "- 0", "c 200"]
    monkeypatch.setattr(source, "PART", part)
    with pytest.raises(UserError, match="line 21: frees a block of a stack that has none"):
        heaptrack.read([log(tmp_path, "\n".join([*tables, *events, ""]))])


EVENTS = st.lists(st.tuples(st.sampled_from("+-<>!"), st.integers(0, 6), st.integers(0, 300)), max_size=60)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, batch=st.integers(1, 20))
def test_any_events_as_one_by_one(
    events: list[tuple[str, int, int]], batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN any order of events, in any batches THEN the live blocks are those of a dictionary."""
    monkeypatch.setattr(live_blocks, "_BATCH", batch)
    monkeypatch.setattr(source, "PART", 60)
    live: dict[int, int] = {}
    lines = ["= Start"]
    for operation, pointer, size in events:
        address = f"0x{pointer:x}" if pointer else "(nil)"
        lines.append(
            f"@ a:(f+0x1)[0x5] {operation} {address}" + (f" {size:#x}" if operation in "+>!" else "")
        )
        if operation in "+>" and pointer:
            live[pointer] = size
        elif operation in "-<":
            live.pop(pointer, None)
    profile = check(mtrace.read([log(tmp_path, "\n".join(lines) + "\n")]))
    assert sorted(profile.live["size"].tolist()) == sorted(live.values())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A library with an exported and a static function, and the addresses behind their calls of malloc."""
    folder = tmp_path_factory.mktemp("calls")
    code = folder / "calls.c"
    code.write_text(
        "#include <stdlib.h>\nvoid *kept[2];\n"
        "__attribute__((noinline)) static void hidden(void) { kept[0] = malloc(1); kept[0] = 0; }\n"
        "void shown(void) { hidden(); kept[1] = malloc(2); hidden(); }\n"
    )
    built = folder / "libcalls.so"
    subprocess.run(
        [needs.program("cc"), "-g", "-O1", "-fPIC", "-shared", str(code), "-o", str(built)],
        check=True,
        timeout=60,
    )
    listed = subprocess.run(
        [needs.program("nm"), str(built)], capture_output=True, text=True, timeout=60
    ).stdout
    found = {
        line.split()[2]: int(line.split()[0], 16) for line in listed.splitlines() if len(line.split()) == 3
    }
    return built, found


def test_static_functions_by_the_file(library: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    """GIVEN a call without a name WHEN the object's file agrees with the log's names THEN it names it."""
    path, places = library
    hidden, shown = places["hidden"] + 4, places["shown"] + 4
    named = f"@ {path}:(shown+0x4)[{shown:#x}] + 0x10 0x1\n"
    unnamed = f"@ {path}:[{hidden:#x}] + 0x20 0x2\n"
    profile = check(mtrace.read([log(tmp_path, "= Start\n" + named + unnamed)]))
    assert held_by(profile, "hidden") == (1, 2)
    assert not any("same builds" in sentence for sentence in profile.lacks)
    # Another build: the name in the log is not at that place of the file.
    wrong = f"@ {path}:(shown+0x4)[{hidden:#x}] + 0x10 0x1\n"
    profile = check(mtrace.read([log(tmp_path, "= Start\n" + wrong + unnamed)]))
    assert held_by(profile, f"libcalls.so+{hidden:#x}") == (1, 2)
    # Nothing to compare with.
    profile = check(mtrace.read([log(tmp_path, "= Start\n" + unnamed)]))
    assert held_by(profile, "hidden") == (1, 2)
    assert any("same builds" in sentence for sentence in profile.lacks)


def test_a_program_started_by_a_relative_path(
    library: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN argv[0] relative to the start WHEN that folder is the current one THEN the file names."""
    path, places = library
    hidden = places["hidden"] + 4
    written = log(tmp_path, f"= Start\n@ ./{path.name}:[{hidden:#x}] + 0x20 0x2\n")
    monkeypatch.chdir(path.parent)
    assert held_by(check(mtrace.read([written])), "hidden") == (1, 2)
    monkeypatch.chdir(tmp_path)
    profile = check(mtrace.read([written]))
    assert held_by(profile, f"libcalls.so+{hidden:#x}") == (1, 2)
    assert any("in the folder in which the program was started" in one for one in profile.lacks)


def test_addresses_before_glibc_2_34_by_the_maps(tmp_path: Path) -> None:
    mappings = maps.parse(["7f0000001000-7f0000005000 r-xp 00002000 08:01 7  /usr/lib/libfoo.so"])
    path = log(tmp_path, "= Start\n@ libfoo.so:[0x7f0000001234] + 0x10 0x1\n")
    profile = check(mtrace.read([path], mappings))
    assert profile.frames[0] == Frame("libfoo.so+0x2234", "native", "libfoo.so")


MAPPED_BY_HAND = """
#include <fcntl.h>
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
typedef void *keeper(void *(*)(size_t), size_t);
int main(int count, char **words) {
  int file = open(words[1], O_RDONLY);
  struct stat status;
  fstat(file, &status);
  char *start = mmap(0, status.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  mtrace();
  void *kept = ((keeper *)(start + strtoul(words[2], 0, 16)))(malloc, 4000);
  muntrace();
  puts("kept");
  fflush(stdout);
  getchar();
  return !kept;
}
"""


def test_addresses_by_the_maps_of_the_running_process(tmp_path: Path) -> None:
    """GIVEN a call from a file that the dynamic linker did not map, whose address the log has as it is
    WHEN --maps names the process, which still runs THEN the file names the function."""
    needs.shared_library("c_malloc_debug")
    cc = needs.program("cc")
    (tmp_path / "main.c").write_text(MAPPED_BY_HAND)
    (tmp_path / "code.c").write_text(
        "void *keep_it(void *(*from)(unsigned long), unsigned long size) {\n"
        "  char *volatile kept = from(size);\n  return kept;\n}\n"
    )
    program, code = tmp_path / "main", tmp_path / "code.so"
    for command in ((program, "main.c"), (code, "-shared", "-fPIC", "code.c")):
        subprocess.run([cc, "-O1", "-o", *command], cwd=tmp_path, check=True, timeout=60)
    listed = subprocess.run([needs.program("nm"), code], capture_output=True, text=True, timeout=60).stdout
    (place,) = [line.split()[0] for line in listed.splitlines() if line.endswith(" keep_it")]
    written = tmp_path / "mtrace.log"
    preloaded = {**os.environ, "LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_TRACE": str(written)}
    with subprocess.Popen(
        [program, code, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=preloaded
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"kept\n"
        found = {}
        for name, options in (("without", ()), ("with", ("--maps", str(process.pid)))):
            recording = tmp_path / f"{name}.offheap"
            run_offheap("import", written, *options, "-o", recording)
            suspects = json.loads(run_offheap("leaks", recording, "--all", "--json").stdout)["suspects"]
            (found[name],) = [one["blamed"] for one in suspects if one["live_bytes"]["estimate"] == 4000]
        process.communicate(b"\n", timeout=60)
    assert process.returncode == 0
    assert found["without"]["name"].startswith("0x7")
    assert (found["with"]["name"], found["with"]["module"]) == ("keep_it", "code.so")
    gone = run_offheap("import", written, "--maps", process.pid, "-o", tmp_path / "gone.offheap", expect=2)
    assert f"/proc/{process.pid}/maps cannot be read" in gone.stderr
