"""The HTML report as a file: its policy, its embedded data, its writing, the tests of its scripts."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.paths import WEB
from harness.screens.report_pages import LEAK, with_info
from harness.warm_command import warm
from offheap.analysis.leaks.leaks import suspects
from offheap.analysis.page.recording_page import recording_page
from offheap.analysis.statistics.estimate import Estimate
from offheap.errors import UserError
from offheap.recording.model import Info, Recording
from offheap.report.html import page as html
from offheap.report.html.payload import payload


def test_the_policy_allows_nothing_but_the_pages_own_script_and_style(template: Path) -> None:
    page = template.read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    directives = dict(part.split(" ", 1) for part in policy[1].split("; "))
    assert directives["default-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/]+=*'", directives["script-src"])
    assert re.fullmatch(r"'sha256-[\w+/]+=*'", directives["style-src"])
    assert directives.keys() == {"default-src", "script-src", "style-src", "base-uri", "form-action"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(), max_size=30), json_values, max_size=4))
def test_embedded_data_comes_back_and_cannot_end_its_element(data: dict[str, Any]) -> None:
    encoding, text = html.embed(data)
    assert encoding == "json"
    assert "<" not in text
    assert text.isascii()
    assert json.loads(text) == data


def test_quantities_that_json_cannot_write_are_null(leaking: Recording) -> None:
    first = suspects(leaking)[0]
    unbounded = dataclasses.replace(first, growth_bytes_per_second=Estimate(1.0, float("-inf"), float("inf")))
    data = payload(recording_page(leaking, [unbounded]))
    assert data["suspects"][0]["growth_bytes_per_second"] == {"estimate": 1.0, "low": None, "high": None}
    json.dumps(data, allow_nan=False)


def test_weights_are_those_of_the_recording(leaking: Recording) -> None:
    stacks = payload(recording_page(leaking, []))["stacks"]
    assert sum(stacks["live_bytes"]) == leaking.live["size"].sum()
    assert sum(stacks["live_blocks"]) == len(leaking.live)
    assert all(
        live <= allocated
        for live, allocated in zip(stacks["live_bytes"], stacks["allocated_bytes"], strict=True)
    )
    names = [leaking.frames[frame].name for frame in stacks["frames"][0]]
    assert names == [frame.name for frame in leaking.stack(1)]


def test_passwords_on_the_command_line_stay_behind(leaking: Recording) -> None:
    command = ("java", "-Ddb.password=geheim", "--api-key=geheim", "-Dsize=3", "-Dtoken=geheim=geheim")
    info: Info = with_info(leaking, command_line=command, jvm_flags=command[1:]).info
    data = payload(recording_page(dataclasses.replace(leaking, info=info), []))
    assert "geheim" not in json.dumps(data)
    assert "-Dsize=3" in data["info"]["command_line"]


def test_a_report_replaces_an_older_one_but_no_other_file(
    template: Path, tmp_path: Path, leaking: Recording
) -> None:
    path = tmp_path / "report.html"
    assert html.write(recording_page(leaking, []), path) == path.stat().st_size
    html.write(recording_page(leaking, suspects(leaking)), path)
    assert LEAK in path.read_text()
    path.write_text("<p>my own page</p>")
    with pytest.raises(UserError, match="not an offheap report"):
        html.write(recording_page(leaking, []), path)
    assert path.read_text() == "<p>my own page</p>"
    with pytest.raises(UserError, match="cannot write"):
        html.write(recording_page(leaking, []), tmp_path / "missing" / "report.html")
    with pytest.raises(UserError, match="is a directory"):
        html.write(recording_page(leaking, []), tmp_path)
    assert os.listdir(tmp_path) == ["report.html"]


def test_without_its_template_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, leaking: Recording
) -> None:
    monkeypatch.setattr(html, "TEMPLATE", tmp_path / "report.html")
    with pytest.raises(UserError, match=r"web/build\.py"):
        html.render(recording_page(leaking, []))
    (tmp_path / "report.html").write_text('<script data-encoding="json">@OFFHEAP_PAYLOAD@</script>')
    with pytest.raises(UserError, match="another version of offheap"):
        html.render(recording_page(leaking, []))


def test_the_command_refuses_what_is_no_recording(tmp_path: Path) -> None:
    foreign = tmp_path / "notes.txt"
    foreign.write_text("no recording")
    for path in (foreign, tmp_path / "missing"):
        done = warm("report", str(path), cwd=tmp_path)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_the_scripts_own_tests_pass(web_build: ModuleType, tmp_path: Path) -> None:
    try:
        npm, environment = web_build.npm_command()
    except web_build.BuildError as error:
        needs.skip(str(error), needs.INTERNET)
    copy = tmp_path / "web"
    shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules"))
    install = subprocess.run(
        [*npm, "ci", "--prefer-offline"], cwd=copy, env=environment, capture_output=True, text=True
    )
    if install.returncode:
        needs.skip(
            f"vitest, which npm could not install ({install.stderr.strip().splitlines()[-1:]})",
            needs.INTERNET,
        )
    done = subprocess.run([*npm, "test"], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
