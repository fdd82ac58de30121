"""The gate: passes, failures and undecided runs, on simulated processes and on real programs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import needs
from harness.command_line import offheap_check
from harness.jvms.zoo import Zoo, programs
from harness.paths import ROOT
from harness.simulation import (
    Cache,
    Churn,
    JustInTime,
    Leak,
    Process,
    compiler,
    inflater,
    java,
    native,
    native_stack,
)
from offheap.analysis.gate.gate import Limits, gate
from offheap.analysis.gate.results import Gate
from offheap.analysis.leaks.leaks import ranking
from offheap.analysis.verdicts.verdict_rules import SHORTEST
from offheap.formats import junit
from offheap.formats.github_annotations import workflow_commands
from offheap.formats.suppressions import parse
from offheap.quantities import QuantityError, parse_rate
from offheap.recording import load
from offheap.recording.model import Frame, Recording
from offheap.report.json.check import check_json
from offheap.report.terminal.recording import check as report
from offheap.report.text.site_lines import site_lines

DOCUMENT = ROOT / "docs" / "json.md"
RATE = 200 * 7160  # bytes a second of the leak below
FINE = 32 << 10  # bytes: this interval excludes 4 MiB/min in half a minute


def stack(method: str) -> tuple[Frame, ...]:
    return inflater(f"com.example.App.{method}", "com.example.Main.main")


def recording(seed: int = 1, *leaks: str, duration: float = 30, **options: Any) -> Recording:
    process = Process(duration, seed)
    process.add(stack("churn"), Churn(500, 20_000, 0.3))
    process.add(stack("cache"), Cache(500, 20_000, 500, "closed"))
    process.add(compiler(), JustInTime(300, 32_768))
    for leak in leaks:
        process.add(stack(leak), Leak(200, 7160))
    return process.record(**options)


def failing(result: Gate) -> list[str]:
    return [suspect.blamed.name for check in result.checks for suspect in check.suspects]


@pytest.mark.parametrize("exact", [False, True])
def test_a_healthy_process_passes(exact: bool) -> None:
    limits = Limits(max_growth=400 * 1024, max_live=200 << 20, leaks=True)
    outcomes = [gate(recording(seed, exact=exact), limits).outcome for seed in range(20)]
    assert "failed" not in outcomes
    assert outcomes.count("passed") >= 17, outcomes


def test_a_leak_fails_and_is_named() -> None:
    for seed in range(10):
        # `check` records with FINE.  With 512 KiB (80 samples) one leak in 60 seems to slow down
        # by chance.
        result = gate(recording(seed, "leak", interval=FINE), Limits())
        assert result.outcome == "failed"
        assert failing(result) == ["com.example.App.leak"]


def test_growth_is_compared_with_its_whole_interval() -> None:
    leaking = recording(1, "leak")
    assert gate(leaking, Limits(max_growth=RATE / 4)).outcome == "failed"
    (check,) = gate(leaking, Limits(max_growth=RATE)).checks
    assert check.outcome == "cannot tell"
    assert re.search(r"/min\); record \d", check.why), check.why
    assert gate(leaking, Limits(max_growth=RATE * 4)).outcome == "passed"


def test_leaks_that_are_each_below_the_limit_are_added_up() -> None:
    leaking = recording(1, "one", "two", "three", "four")
    assert gate(leaking, Limits(max_growth=RATE * 2)).outcome == "failed"


def test_a_limit_finer_than_the_samples_cannot_be_told() -> None:
    coarse = recording(1, interval=1 << 20)
    for limit, finer in ((4096, "with --interval 16KiB"), (1024, "with --exact")):
        (check,) = gate(coarse, Limits(max_growth=limit)).checks
        assert check.outcome == "cannot tell"
        assert "record " in check.why
        assert f"or 1 min {finer}" in check.why
    assert gate(recording(1, exact=True), Limits(max_growth=20 * 1024)).outcome == "passed"


def test_the_highest_live_bytes_count_not_those_at_exit() -> None:
    process = Process(30, 1)
    number = process.add(stack("burst"), Leak(100, 1 << 20))
    blocks = process.blocks[number]
    process.blocks[number] = replace(blocks, deaths=blocks.births * 0 + 28.5)
    ended = process.record(exact=True)
    assert float(ended.live["size"].sum()) < 300 << 20
    (check,) = gate(ended, Limits(max_live=2 << 30)).checks
    assert check.outcome == "failed"
    assert "live at 28" in check.why
    assert gate(ended, Limits(max_live=4 << 30)).outcome == "passed"


def test_the_jvms_address_space_is_not_live_memory() -> None:
    process = Process(30, 1)
    process.add(compiler("ReservedHeapSpace::ReservedHeapSpace()"), Leak(0.5, 1 << 30), kind=2)
    process.add(stack("churn"), Churn(500, 20_000, 0.3))
    assert gate(process.record(), Limits(max_live=50 << 20)).outcome == "passed"


def test_what_is_live_at_exit_does_not_fail() -> None:
    process = Process(30, 1)
    process.add(stack("cache"), Cache(1000, 200_000, 1000, "closed"))
    assert gate(process.record(interval=FINE), Limits()).outcome == "passed"


def test_only_new_leaks_fail_beside_a_baseline() -> None:
    old = recording(1, "known")
    again = recording(2, "known", interval=FINE)
    assert gate(again, Limits(leaks=True), baseline=old).outcome == "passed"
    result = gate(recording(2, "known", "fresh"), Limits(leaks=True), baseline=old)
    assert result.outcome == "failed"
    assert failing(result) == ["com.example.App.fresh"]
    assert result.checks[0].name == "no-new-leaks"


def test_growth_that_the_baseline_has_is_not_denied() -> None:
    """GIVEN a site that grows in both THEN the rate that is excluded is that of the other sites."""
    old, new = (recording(seed, "known", interval=FINE) for seed in (1, 2))
    # Without births a site that leaks is growing.
    old, new = (replace(one, info=replace(one.info, births=False)) for one in (old, new))
    assert ranking(new)[0].verdict == "growing"
    (check,) = gate(new, Limits(leaks=True), baseline=old).checks
    assert check.outcome == "passed"
    assert "no more than in the baseline, 1 known; no other site leaks more than" in check.why


def test_a_baseline_too_short_to_know() -> None:
    old = recording(1, "known", duration=2.5)
    result = gate(recording(2, "known"), Limits(leaks=True), baseline=old)
    assert result.outcome == "cannot tell"
    assert "record a baseline of " in result.checks[0].why


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"duration_seconds": 2.0}, "were recorded; record "),
        ({"lost": {"lost_blocks": 10_000}}, "samples were lost"),
    ],
)
def test_a_recording_with_gaps_can_fail_but_not_pass(change: dict[str, Any], why: str) -> None:
    healthy, leaking = recording(1), recording(1, "leak")
    (check,) = gate(replace(healthy, info=replace(healthy.info, **change)), Limits()).checks
    assert check.outcome == "cannot tell"
    assert why in check.why
    assert gate(replace(leaking, info=replace(leaking.info, **change)), Limits()).outcome == "failed"


def test_nothing_recorded_cannot_be_told() -> None:
    (check,) = gate(Process(30, 1).record(), Limits()).checks
    assert check.outcome == "cannot tell"
    assert "nothing was recorded; record longer" in check.why


def test_too_few_samples_cannot_be_told() -> None:
    process = Process(30, 1)
    process.add(stack("rare"), Leak(0.1, 600_000))
    (check,) = gate(process.record(), Limits()).checks
    assert check.outcome == "cannot tell"
    assert "record " in check.why


def test_ignored_sites_do_not_count_and_unused_suppressions_are_known() -> None:
    suppressions = parse("leak:com.example.App.kn*n\nleak:^nobody$\nleak:App.churn", "x")
    result = gate(recording(1, "known", interval=FINE), Limits(), suppressions=suppressions)
    assert result.outcome == "passed"
    assert result.ignored == 1
    assert result.used == {0}, "churn is healthy: there is nothing to suppress"
    assert gate(recording(1, "known", "new"), Limits(), suppressions=suppressions).outcome == "failed"


def lines(result: Gate) -> list[str]:
    import io

    from rich.console import Console

    out = Console(file=io.StringIO(), soft_wrap=True, highlight=False, markup=False, emoji=False)
    report.print_gate(out, result)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@pytest.mark.parametrize("limits", [Limits(), Limits(max_growth=1024, max_live=1 << 20, leaks=True)])
def test_a_failure_is_told_in_ten_lines(limits: Limits) -> None:
    deep = inflater("com.example.App.leak", *(f"com.example.Deep.call{i}" for i in range(40)))
    process = Process(30, 1)
    for number in range(12):
        process.add((*deep[:-1], java(f"com.example.Root{number}.run")), Leak(100, 7160))
    text = lines(gate(process.record(), limits))
    assert len(text) <= 10
    assert text[0].startswith("FAILED")
    assert any(line.startswith("  > java    com.example.App.leak  App.java:10") for line in text)
    assert any("more sites" in line for line in text)


def hostile() -> Recording:
    process = Process(30, 1)
    evil = "evil\x1b[31m\x00\u202e]]>&<\n::error::%0A\ud800"
    process.add((*native_stack()[:1], native(evil, "libevil.so", "../../etc/passwd", 1)), Leak(300, 20_000))
    return process.record()


def test_junit_says_what_the_gate_says() -> None:
    gates = [
        gate(recording(1, "one", "two"), Limits(max_growth=RATE / 4, max_live=4 << 30, leaks=True)),
        gate(recording(1, duration=2), Limits(max_growth=1024)),
        gate(hostile(), Limits()),
    ]
    root = ElementTree.fromstring(junit.document(gates))
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "3", "1")
    for suite, result in zip(root, gates, strict=True):
        assert len(suite) == len(result.checks) == int(suite.get("tests", ""))
        for case, check in zip(suite, result.checks, strict=True):
            assert case.get("name") == check.name
            expected = {"passed": [], "failed": ["failure"], "cannot tell": ["error"]}[check.outcome]
            assert [child.tag for child in case] == expected
            for child in case:
                assert child.get("message") == check.why
                for suspect in check.suspects:
                    assert site_lines(suspect, 40)[1] in (child.text or "")


def test_annotations_point_at_the_source_and_keep_to_a_line(tmp_path: Path) -> None:
    source = tmp_path / "core" / "src" / "main" / "java" / "com" / "example" / "App.java"
    source.parent.mkdir(parents=True)
    source.touch()
    (line,) = workflow_commands([gate(recording(1, "leak"), Limits())], tmp_path)
    assert line.startswith(
        "::error file=core/src/main/java/com/example/App.java,line=10,title=offheap no-leaks::"
    )
    assert "java.util.zip.Inflater.<init>, called by com.example.App.leak" in line
    (warning,) = workflow_commands([gate(recording(1, duration=2), Limits())], tmp_path)
    assert warning.startswith("::warning title=offheap no-leaks::only 2.0 s were recorded")
    for line in workflow_commands([gate(hostile(), Limits())], tmp_path):
        assert line.isprintable()
        assert "file=" not in line
        assert "%0A" not in line.partition("title=")[2]


def test_a_source_file_may_have_a_name_that_no_file_has(tmp_path: Path) -> None:
    process = Process(30, 1)
    leak = Frame("com.example.App.leak", "java", "", "A" * 5000 + ".java", 1)
    process.add((*inflater("x.Y.z")[:5], leak), Leak(300, 20_000))
    (tmp_path / "core").mkdir()
    (line,) = workflow_commands([gate(process.record(), Limits())], tmp_path)
    assert line.startswith("::error title=")


def test_json_has_what_the_document_says() -> None:
    value = check_json([gate(recording(1, "leak"), Limits())], "failed", ["x:2: leak:^nobody$"])
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    part = DOCUMENT.read_text().split("## offheap.check/1")[1].split("\n## ")[0]
    shown = json.loads(part.split("```json\n")[1].split("```")[0].replace("{...}", "{}"))
    assert list(shown) == list(value)
    assert list(shown["recordings"][0]) == list(value["recordings"][0])
    check = value["recordings"][0]["checks"][0]
    assert list(shown["recordings"][0]["checks"][0]) == list(check)
    assert list(shown["recordings"][0]["checks"][0]["sites"][0]) == list(check["sites"][0])


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1MiB/min", (1 << 20) / 60),
        ("10k/s", 10240),
        (" 2 GB / h ", (2 << 30) / 3600),
        ("1.5m/d", 1.5 * (1 << 20) / 86400),
    ],
)
def test_rates(text: str, rate: float) -> None:
    assert parse_rate(text) == pytest.approx(rate)


@given(st.text("0123456789.kmKMiBb /smhdin-e") | st.text())
def test_any_text_is_a_rate_or_refused(text: str) -> None:
    try:
        rate = parse_rate(text)
    except QuantityError:
        return
    assert 0 <= rate < 2**73
    assert "/" in text


@pytest.fixture(scope="module")
def checked(
    jres: dict[int, Path], zoo: Zoo, probe_library: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, subprocess.CompletedProcess[str]]:
    """`offheap check -- java ...` of a leak, of churn and of a too short program, each with its recording."""
    needs.jre(17, 17 in jres)
    folder = tmp_path_factory.mktemp("check")

    def check(name: str, program: str, seconds: float, *more: str) -> subprocess.CompletedProcess[str]:
        command = zoo.command(programs()[program], jres[17], seconds=seconds, rate=200)
        # Ten seconds with an interval of 64 KiB exclude 5 MiB/min only.
        options = ("--interval", "16KiB", "-o", f"{name}.offheap", "--junit", f"{name}.xml", *more)
        return offheap_check(folder, *options, "--", *command)

    def check_too_short() -> subprocess.CompletedProcess[str]:
        # A busy machine takes seconds to start a JVM, and the recording includes the start.
        for _ in range(8):
            shutil.rmtree(folder / "short.offheap", ignore_errors=True)
            done = check("short", "inflaters", 1, "--duration", "1s")
            if load(folder / "short.offheap").info.duration_seconds < SHORTEST:
                break
        return done

    with ThreadPoolExecutor(3) as executor:
        futures = {
            "leak": executor.submit(check, "leak", "inflaters", 10),
            "healthy": executor.submit(check, "healthy", "churn", 10),
            "short": executor.submit(check_too_short),
        }
        result = {name: future.result() for name, future in futures.items()}
    result["folder"] = subprocess.CompletedProcess([str(folder)], 0)
    return result


def test_a_real_leak_fails(checked: dict[str, subprocess.CompletedProcess[str]]) -> None:
    done = checked["leak"]
    assert done.returncode == 1, done.stdout + done.stderr
    ours = done.stdout[done.stdout.index("FAILED") :].splitlines()
    assert len(ours) <= 10
    assert any(line.startswith("  > java    leaks.Inflaters.openInflater  Inflaters.java:") for line in ours)
    folder = Path(checked["folder"].args[0])
    root = ElementTree.parse(folder / "leak.xml").getroot()
    assert root.get("failures") == "1"
    # In a checkout with the source, the annotation points at the source line.
    source = folder / "src" / "leaks" / "Inflaters.java"
    source.parent.mkdir(parents=True)
    source.touch()
    annotated = offheap_check(folder, "leak.offheap", "--github")
    assert annotated.returncode == 1
    (error,) = (line for line in annotated.stdout.splitlines() if line.startswith("::error "))
    assert re.match(r"::error (.*,)?file=src/leaks/Inflaters\.java,line=\d+", error), error


def test_a_real_healthy_program_passes(checked: dict[str, subprocess.CompletedProcess[str]]) -> None:
    done = checked["healthy"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout


def test_a_real_program_too_short_to_tell(checked: dict[str, subprocess.CompletedProcess[str]]) -> None:
    done = checked["short"]
    assert done.returncode == 3, done.stdout + done.stderr
    assert "CANNOT TELL" in done.stdout
    root = ElementTree.parse(Path(checked["folder"].args[0]) / "short.xml").getroot()
    assert root.get("errors") == "1"


def test_recordings_options_and_statuses(checked: dict[str, subprocess.CompletedProcess[str]]) -> None:
    folder = Path(checked["folder"].args[0])
    (folder / "lsan.supp").write_text("leak:leaks.Inflaters\nleak:nobody\n")

    def status(*arguments: str) -> int:
        return offheap_check(folder, *arguments).returncode

    assert status("healthy.offheap", "leak.offheap") == 1
    assert status("healthy.offheap", "short.offheap") == 3
    assert status("leak.offheap", "--baseline", "leak.offheap", "--no-new-leaks") == 0
    assert status("--baseline", "healthy.offheap", "leak.offheap") == 1
    assert status("leak.offheap", "--max-growth", "1GiB/s", "healthy.offheap") == 0
    ignored = offheap_check(folder, "leak.offheap", "--ignore", "lsan.supp", "--json")
    assert ignored.returncode == 0, ignored.stderr
    assert json.loads(ignored.stdout)["unused_suppressions"] == ["lsan.supp:2: leak:nobody"]
    assert "unused suppression leak:nobody (lsan.supp:2)" in ignored.stderr


def test_a_command_that_fails_gives_its_status(probe_library: Path, tmp_path: Path) -> None:
    done = offheap_check(tmp_path, "-o", "x.offheap", "--", "sh", "-c", "sleep 0.3; exit 7")
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        ([], "give recordings, or a command after --"),
        (["a.offheap", "--", "true"], "both recordings and a command are given"),
        (["--"], "there is no command after --"),
        (["none.offheap"], "none.offheap"),
        (["a.offheap", "--no-new-leaks"], "--baseline OLD"),
        (["a.offheap", "--max-growth", "1MiB"], "1MiB/min"),
        (["a.offheap", "--max-growth", "fast/s"], "is not a size"),
        (["a.offheap", "--junit", "none/x.xml"], "--junit"),
        (["a.offheap", "--ignore", "none"], "--ignore"),
        (["a.offheap", "--bogus"], "--bogus"),
    ],
)
def test_bad_input(tmp_path: Path, arguments: Sequence[str], mend: str) -> None:
    start = time.monotonic()
    done = offheap_check(tmp_path, *arguments)
    assert done.returncode == 2
    assert mend in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert time.monotonic() - start < 30
