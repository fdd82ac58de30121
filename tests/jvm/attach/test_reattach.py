"""Repeated attach and detach in one JVM while another thread loads and closes a library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import needs
from harness.survival import reattach

pytestmark = pytest.mark.usefixtures("probe_library")


@pytest.fixture(scope="module")
def programs(jdk: Path, tmp_path_factory: pytest.TempPathFactory) -> reattach.Programs:
    return reattach.build(jdk, tmp_path_factory.mktemp("reattach"))


@needs.as_root  # reads another process's memory
@pytest.mark.parametrize(
    ("version", "cycles", "kind"),
    [
        (17, 10, "sampled"),
        (25, 10, "exact"),
        *(pytest.param(version, 1000, "exact", marks=pytest.mark.slow) for version in (11, 17, 21, 25)),
    ],
)
def test_nothing_stays_behind(
    version: int, cycles: int, kind: reattach.Kind, jre: Callable[[int], Path], programs: reattach.Programs
) -> None:
    outcome = reattach.run(jre(version), programs, cycles, kind)
    print(outcome)
    assert outcome.status == reattach.STATUS
    assert outcome.reloads > cycles
    assert outcome.modules > 6
    assert not outcome.changed
    # A live file that stays mapped, or a thread that stays, would add mappings with each cycle.
    assert outcome.last.mappings - outcome.warm.mappings < max(20, cycles // 20)
    assert outcome.external_growth < outcome.external_limit
    if cycles >= 100:
        assert outcome.rss_growth < 3000
