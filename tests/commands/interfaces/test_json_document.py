"""docs/json.md against every command on a real JVM: no documented key is missing, no other key appears."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from harness import needs
from harness.jvms import zoo as zoo_programs
from harness.jvms.waiting_jvm import remove_live_files
from harness.jvms.zoo import Running, Zoo
from harness.paths import ROOT
from harness.recordings.imported_profiles import SAMPLES
from harness.warm_command import warm

DOCUMENT = (ROOT / "docs" / "json.md").read_text()
ELSEWHERE = "described above"

# The keys of these objects are names from the process, not keys of offheap.
NAMED_BY_THE_PROCESS = {
    ".variables",
    ".recording.lost",
    ".new.recording.lost",
    ".old.recording.lost",
    ".watch.owners",
    ".watch.gauges",
}


def examples() -> dict[str, Any]:
    """The examples of the document by schema; `{...}` stands for an example shown elsewhere."""
    found: dict[str, Any] = {}
    for block in re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL):
        decoder, text = json.JSONDecoder(), block.replace("{...}", f'"{ELSEWHERE}"').strip()
        while text:
            value, end = decoder.raw_decode(text)
            found[value.get("schema", "java heap" if "java_heap" in value else "watched")] = value
            text = text[end:].strip()
    return found


def differences(documented: Any, printed: Any) -> list[str]:
    """Keys that only one side has, and values of different types; null matches any value."""
    return list(_differences(documented, printed, ""))


def _differences(documented: Any, printed: Any, path: str) -> Iterator[str]:
    if documented is None or printed is None or ELSEWHERE in (documented, printed):
        return
    if isinstance(documented, dict) and isinstance(printed, dict):
        if path in NAMED_BY_THE_PROCESS:
            return
        yield from (f"{path}.{key} is documented, not printed" for key in sorted(documented.keys() - printed))
        yield from (f"{path}.{key} is printed, not documented" for key in sorted(printed.keys() - documented))
        for key in sorted(documented.keys() & printed):
            yield from _differences(documented[key], printed[key], f"{path}.{key}")
    elif isinstance(documented, list) and isinstance(printed, list):
        for item in printed if documented else ():
            yield from _differences(documented[0], item, f"{path}[]")
    else:
        kinds = {float if type(value) is int else type(value) for value in (documented, printed)}
        if len(kinds) > 1:
            yield f"{path} is {printed!r}, documented is {documented!r}"


@dataclass(frozen=True)
class Scene:
    """A leaking JVM, and a recording of it."""

    pid: int
    folder: Path

    def run(self, *arguments: str) -> Any:
        command = [argument.format(pid=self.pid) for argument in arguments]
        done = warm(*command, cwd=self.folder)
        # 3: within four seconds Java may not have collected, so that the verdict is open.
        assert done.returncode in (0, 1, 3), done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def scene(jres: dict[int, Path], zoo: Zoo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    needs.jre(17, 17 in jres)
    program = replace(zoo_programs.programs()["inflaters"], jvm=("-XX:NativeMemoryTracking=summary",))
    folder = tmp_path_factory.mktemp("json")
    with Running(zoo.command(program, jres[17], rate=400)) as running:
        found = Scene(running.pid, folder)
        attached = found.run(
            *("attach", "{pid}", "--interval", "16KiB", "--every", "500ms"),
            *("--duration", "4s", "--keep", "-o", "a.offheap", "--json"),
        )
        assert differences(examples()["offheap.attach/1"], attached) == []
        yield found
    remove_live_files(running.pid)


# test_reports.py compares these with simulated recordings: their keys need no JVM.  test_push.py and
# test_jemalloc_command.py have the last three.
OTHERS = {
    f"offheap.{name}/1"
    for name in ("attach", "summary", "tree", "stats", "ticket", "push", "jemalloc-dump", "jemalloc-run")
}

WITHOUT_SCHEMA = {"watched", "java heap"}  # parts of other examples

COMMANDS = {
    "offheap.ps/1": ("ps", "--json"),
    "offheap.clean/1": ("clean", "--dry-run", "--json"),
    "offheap.env/1": ("env", "--json"),
    "offheap.where/1": ("where", "{pid}", "--json"),
    # Without --no-attach the JVMs of parallel tests would begin to listen; some tests check that they do not.
    "offheap.where-all/1": ("where", "--all", "--no-attach", "--json"),
    "offheap.nmt/1": ("nmt", "{pid}", "--json"),
    "offheap.trim/1": ("trim", "{pid}", "--json"),
    "offheap.leaks/1": ("leaks", "a.offheap", "--json"),
    "offheap.check/1": ("check", "a.offheap", "--json"),
    "offheap.diff/1": ("diff", "a.offheap", "--from", "2s", "--json"),
    "offheap.report/1": ("report", "a.offheap", "--format", "md", "--json"),
    "offheap.export/1": ("export", "a.offheap", "--format", "json", "-o", "-"),
    "offheap.exported/1": ("export", "a.offheap", "--format", "pprof", "--json"),
    "offheap.import/1": ("import", str(SAMPLES / "jemalloc.heap"), "-o", "b.offheap", "--json"),
    "offheap.mtrace/1": ("mtrace", "{pid}", "--json"),
    "offheap.symbolize/1": ("symbolize", "a.offheap", "--json"),
    "offheap.anonymize/1": ("anonymize", "a.offheap", "-o", "c.offheap", "--json"),
    "offheap.detach/1": ("detach", "{pid}", "--json"),  # last: the other commands need the probe
}


@pytest.mark.parametrize("schema", COMMANDS)
def test_a_command_prints_the_keys_that_the_document_names(schema: str, scene: Scene) -> None:
    known = examples()
    printed = scene.run(*COMMANDS[schema])
    assert printed["schema"] == schema
    documented = known[schema]
    if schema == "offheap.where-all/1":
        # A JVM that can be inspected has the full `where` document.
        printed["jvms"] = [jvm for jvm in printed["jvms"] if jvm["pid"] == scene.pid]
        assert len(printed["jvms"]) == 1
        documented = {**documented, "jvms": [known["offheap.where/1"]]}
    assert differences(documented, printed) == []


def test_a_watched_process_and_a_recording_have_what_the_second_example_names(scene: Scene) -> None:
    known = examples()
    watched = known["watched"]
    growth = {"growth_bytes_per_second": watched["growth_bytes_per_second"]}
    owners = [{**known["offheap.where/1"]["owners"][0], **growth}]
    documented = {**known["offheap.where/1"], **watched, "owners": owners}
    assert differences(documented, scene.run("where", "{pid}", "--watch", "2s", "--json")) == []
    printed = scene.run("where", "a.offheap", "--json")
    unnamed = [line for line in differences(documented, printed) if line.endswith("not documented")]
    assert unnamed == []
    assert watched.keys() <= printed.keys()


def test_every_schema_that_the_document_names_has_a_command() -> None:
    assert examples().keys() - WITHOUT_SCHEMA == {*COMMANDS, *OTHERS}
    assert set(re.findall(r"offheap\.[a-z-]+/\d", DOCUMENT)) == examples().keys() - WITHOUT_SCHEMA


def test_a_missing_and_an_unnamed_key_are_noticed() -> None:
    documented = {"a": 1, "b": [{"c": None, "d": "x"}]}
    assert differences(documented, {"a": 2.5, "b": [{"c": {"any": 1}, "d": "y"}]}) == []
    assert differences(documented, {"a": "2", "b": [{"c": 0, "d": "y"}, {"c": 1, "e": 0}]}) == [
        ".a is '2', documented is 1",
        ".b[].d is documented, not printed",
        ".b[].e is printed, not documented",
    ]
