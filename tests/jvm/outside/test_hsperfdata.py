"""HotSpot's performance data file, of real JVMs and damaged."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import needs
from harness.jvms.java_homes import JRE_VERSIONS
from harness.jvms.waiting_jvm import waiting_jvm
from harness.paths import DATA
from offheap.jvm.counters import hsperfdata
from offheap.proc import maps

SAMPLES = {
    path.name.removesuffix(".gz"): gzip.decompress(path.read_bytes())
    for path in sorted((DATA / "hsperfdata").iterdir())
}


@pytest.fixture(scope="module", params=SAMPLES)
def captured(request: pytest.FixtureRequest) -> bytes:
    """The bytes of one real file."""
    return SAMPLES[request.param]


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_of_a_jvm(name: str) -> None:
    found = hsperfdata.parse(SAMPLES[name])
    version, collector = name.split("-")
    assert found.java_version.split(".")[0] == version
    assert found.java_command == "Gold /srv/mapped.bin"
    assert found.text("java.property.java.home") == f"/opt/java/{version}"
    assert found.vm_arguments.casefold() == f"-xmx64m -xx:+use{collector}gc"
    assert int(found.values["java.threads.live"]) > 12


@pytest.mark.parametrize("version", JRE_VERSIONS)
def test_a_jvm_says_what_it_is(version: int, jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(version), waiting_classes, "-Dsome.property=a b") as jvm:
        found = hsperfdata.read(jvm.pid, jvm.pid, maps.read(jvm.pid))
        assert found
        assert found.java_version.split(".")[0] == str(version)
        assert found.java_command == "Waiting"
        assert "-Dsome.property=a b" in found.vm_arguments
        assert found.attachable is True
        assert found.text("java.property.java.home") == str(jre(version).parents[1])
        assert isinstance(found.values["java.threads.live"], int)
        assert 0 < int(found.values["java.threads.live"]) < 100
        # A file of that name is ignored unless the process writes it.
        assert hsperfdata.read(jvm.pid, jvm.pid + 1, maps.read(jvm.pid)) is None


@needs.tracing
def test_a_file_that_somebody_removed(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as jvm:
        (mapping,) = [m for m in maps.read(jvm.pid) if m.name == str(jvm.pid)]
        Path(mapping.path).unlink()
        found = hsperfdata.read(jvm.pid, jvm.pid, maps.read(jvm.pid))
        assert found
        assert found.java_command == "Waiting"


@pytest.mark.parametrize("version", [11, 25])
def test_disabled_attach_is_seen(version: int, jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(version), waiting_classes, "-XX:+DisableAttachMechanism") as jvm:
        found = hsperfdata.read(jvm.pid, jvm.pid, maps.read(jvm.pid))
        assert found
        assert found.attachable is False


def test_none_is_published_without_perf_data(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(21), waiting_classes, "-XX:-UsePerfData") as jvm:
        assert hsperfdata.read(jvm.pid, jvm.pid, maps.read(jvm.pid)) is None


@pytest.mark.parametrize(
    "raw", [b"", b"\xca\xfe\xc0\xc0", b"x" * 64, b"\xca\xfe\xc0\xc0\1\1\0\1" + bytes(24)]
)
def test_what_is_no_such_file_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="hsperfdata"):
        hsperfdata.parse(raw)


def test_a_cut_file_gives_its_first_entries(captured: bytes) -> None:
    whole = hsperfdata.parse(captured).values
    half = hsperfdata.parse(captured[: len(captured) // 4]).values
    assert 0 < len(half) < len(whole)
    assert all(whole[name] == value for name, value in half.items())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    damage=st.lists(
        st.tuples(st.integers(0, 2**15), st.binary(min_size=1, max_size=8)), min_size=1, max_size=8
    )
)
def test_no_damage_breaks_the_parser(captured: bytes, damage: list[tuple[int, bytes]]) -> None:
    raw = bytearray(captured)
    for position, piece in damage:
        raw[position : position + len(piece)] = piece
    try:
        values = hsperfdata.parse(bytes(raw)).values
    except ValueError:
        return
    assert all(isinstance(value, int | str) for value in values.values())
