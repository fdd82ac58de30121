"""`offheap symbolize`: names that were missing where a recording was made, from files elsewhere."""

from __future__ import annotations

import contextlib
import hashlib
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.native.leaking_library import Recorded, build_library, record_without_symbols
from harness.paths import DATA
from offheap import recording
from offheap.cli.main import main
from offheap.errors import UserError
from offheap.probe.contract import FrameKind
from offheap.recording.model import Frame, Recording
from offheap.recording.storage.writer import RecordingWriter
from offheap.rewriting import content as contents
from offheap.rewriting.symbolize import symbolize
from offheap.symbols import Symbolizer
from offheap.symbols.generated.generated_code import GeneratedCode

MAP = DATA / "perf_map" / "17.map"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, probe_library: Path) -> Recorded:
    return record_without_symbols(tmp_path_factory.mktemp("recorded"), probe_library)


def ran(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = main(["symbolize", *map(str, words)])
    return status, *capsys.readouterr()


def names(path: Path) -> list[str]:
    """The leaking stack, innermost first, up to main."""
    loaded = recording.load(path)
    (stack,) = {int(number) for number in loaded.live["stack"]}
    found = [frame.name for frame in loaded.stack(stack)]
    return found[: found.index("main") + 1]


def files(folder: Path) -> dict[str, str]:
    """The content of all files, as digests."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def same_figures(one: Recording, other: Recording) -> bool:
    return all(
        getattr(one, table).tobytes() == getattr(other, table).tobytes()
        for table in ("live", "series", "process", "stack_kinds")
    )


NAMED = ["malloc", "inner", "acme_make", "main"]


def test_by_build_id_from_a_folder(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(recorded.recording)
    assert names(recorded.recording)[1].startswith("libacme.so+0x")
    status, out, _ = ran(
        capsys, recorded.recording, "--debug", recorded.library.parent, "-o", tmp_path / "b.offheap"
    )
    assert status == 0
    assert out.startswith(f"named 2 of {recorded.unnamed} frames that had no name\n")
    assert "libacme.so" not in out
    assert names(tmp_path / "b.offheap") == NAMED
    assert files(recorded.recording) == before
    old, new = recording.load(recorded.recording), recording.load(tmp_path / "b.offheap")
    assert same_figures(old, new)
    assert any("libacme.so: the file is gone" in sentence for sentence in old.info.coverage)
    assert not any("libacme.so" in sentence for sentence in new.info.coverage)


def test_from_a_sysroot(recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "root" / recorded.place.relative_to("/")
    place.parent.mkdir(parents=True)
    shutil.copy(recorded.library, place)
    output = tmp_path / "b.offheap"
    assert ran(capsys, recorded.recording, "--sysroot", tmp_path / "root", "-o", output)[0] == 0
    assert names(output) == NAMED


def test_another_build_is_refused(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a library of the same name and place, of another build THEN it names nothing."""
    folder = tmp_path / "other"
    folder.mkdir()
    build_library(folder, "-DOTHER", "-O0")
    output = tmp_path / "b.offheap"
    _, out, _ = ran(capsys, recorded.recording, "--debug", folder, "-o", output)
    lines = out.splitlines()
    assert lines[:2] == [f"named 0 of {recorded.unnamed} frames that had no name", "still without names:"]
    (build_id,) = [m.build_id for m in recording.load(output).modules if m.path == str(recorded.place)]
    assert f"  {build_id}  {recorded.place}, frames: 2 (the file is gone)" in lines
    assert names(output)[1].startswith("libacme.so+0x")


def test_of_a_recorder_that_was_killed(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a journal, whose native frames no recorder has named THEN the result is named and finished."""
    content = contents.read(recorded.recording)
    writer = RecordingWriter(tmp_path / "a.offheap")
    for table, columns in content.tables.items():
        writer.copy_table(table, columns)
    native = {number for number, raw in content.raws.items() if raw >> 60 == FrameKind.NATIVE}
    kept = {number: chain for number, chain in content.chains.items() if number not in native}
    writer.append_frames(kept, content.raws)
    writer.append_raws(content.raws)
    writer.append_stacks(content.stacks)
    writer.replace_info(content.info)
    writer.close()
    output = tmp_path / "b.offheap"
    assert ran(capsys, tmp_path / "a.offheap", "--debug", recorded.library.parent, "-o", output)[0] == 0
    assert names(output) == NAMED
    assert not (output / "journal").exists()


# Addresses and what MAP has there.
GENERATED = {
    0x7F0769409DC1: Frame("com.acme.secret.Main$$Lambda.go", "java"),
    0x7F0770940B81: Frame("Interpreter", "jvm"),
    0x7F0769400560: Frame("0x7f0769400560", "unknown"),  # a return address behind what lies before
    0x10: Frame("0x10", "unknown"),
}


def with_generated_code(recording: Path) -> tuple[contents.Content, int]:
    """The content with frames of GENERATED, as the probe names them, and the first one's number."""
    content = contents.read(recording)
    number = max(content.chains) + 1
    for offset, address in enumerate(GENERATED):
        content.chains[number + offset] = (Frame(f"{address:#x}", "unknown"),)
        content.raws[number + offset] = address
    return content, number


def test_generated_code_by_a_perf_map(recorded: Recorded) -> None:
    content, number = with_generated_code(recorded.recording)
    with contextlib.closing(Symbolizer()) as symbolizer:
        outcome = symbolize(content, symbolizer, GeneratedCode(MAP))
    found = [content.chains[number + offset][0] for offset in range(len(GENERATED))]
    assert found == list(GENERATED.values())
    assert outcome.named == 2


def test_the_command_names_generated_code_by_a_perf_map(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, number = with_generated_code(recorded.recording)
    contents.write(content, tmp_path / "a.offheap")
    output = tmp_path / "b.offheap"
    status, out, _ = ran(capsys, tmp_path / "a.offheap", "--perf-map", MAP, "-o", output)
    assert status == 0
    assert out.startswith(f"named 2 of {recorded.unnamed + 4} frames that had no name\n")
    chains = contents.read(output).chains
    assert [chains[number + offset] for offset in range(4)] == [(frame,) for frame in GENERATED.values()]


def test_whole_or_not_at_all(recorded: Recorded, tmp_path: Path) -> None:
    """GIVEN that files may not grow beyond some bytes THEN it is one line, status 2, and nothing is left."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(
        [sys.executable, "-m", "offheap", "symbolize", recorded.recording, "-o", tmp_path / "b.offheap"],
        capture_output=True,
        text=True,
        preexec_fn=limited,
        timeout=60,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_not_replaced(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "b.offheap").mkdir()
    status, _, err = ran(capsys, recorded.recording, "-o", tmp_path / "b.offheap")
    assert (status, err.count("\n"), "exists already" in err) == (2, 1, True)


def test_damaged_recordings_are_one_line(recorded: Recorded, tmp_path: Path) -> None:
    """Each file of a recording cut at several places."""
    copy = tmp_path / "a.offheap"
    shutil.copytree(recorded.recording, copy)
    for path in [*sorted(copy.rglob("*.parquet")), copy / "meta.json"]:
        data = path.read_bytes()
        for size in (1, len(data) // 3, len(data) // 2, len(data) - 9, len(data) - 3):
            path.write_bytes(data[:size])
            with pytest.raises(UserError, match="damaged"):
                contents.read(copy)
        path.write_bytes(data)
    contents.read(copy)
