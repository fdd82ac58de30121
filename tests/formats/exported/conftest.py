"""The recording of a known program, and its exports: one of each serves all tests of a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.recordings.two_keepers import export, record
from offheap.recording import load
from offheap.recording.model import Recording


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, probe_library: Path) -> Path:
    return record(tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def recording(recorded: Path) -> Recording:
    return load(recorded)


@pytest.fixture(scope="module")
def exported(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return export(recording, tmp_path_factory.mktemp("formats"))
