"""Which values of arguments and properties look like secrets; no recording or report contains them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.command_line import offheap
from harness.paths import TESTS
from harness.recordings.live_file_writer import LiveFileWriter, hook
from offheap.cli.main import main
from offheap.formats.exported.formats import FORMATS
from offheap.recording import load, masking
from offheap.recording.capture.recorder import record

SAMPLES = TESTS / "formats" / "samples"
SECRETS = [
    ("-Dspring.datasource.password=hunter2", "-Dspring.datasource.password=***"),
    ("-Djavax.net.ssl.keyStorePassword=hunter2", "-Djavax.net.ssl.keyStorePassword=***"),
    ("--db-password=hunter2=hunter2", "--db-password=***"),
    ("-Dapi.key='hunter2 hunter2'", "-Dapi.key=***"),
    ("-DAWS_SECRET_ACCESS_KEY=hunter2", "-DAWS_SECRET_ACCESS_KEY=***"),
    ("--apiKey=hunter2", "--apiKey=***"),
    ("-Dtoken=hunter2,port=80", "-Dtoken=***"),
    ("-Dpassword=,hunter2;hunter2 hunter2&hunter2", "-Dpassword=***"),
    ("-javaagent:/a/agent.jar=host=x,token=hunter2", "-javaagent:/a/agent.jar=host=x,token=***"),
    (
        "jdbc:postgresql://db:5432/shop?user=app&password=hunter2",
        "jdbc:postgresql://db:5432/shop?user=app&password=***",
    ),
    (
        "jdbc:sqlserver://db;user=app;password=hunter2;encrypt=true",
        "jdbc:sqlserver://db;user=app;password=***;encrypt=true",
    ),
    ("jdbc:oracle:thin:app/hunter2@db:1521:shop", "jdbc:oracle:thin:app/***@db:1521:shop"),
    ("https://app:hunter2@example.com/x", "https://app:***@example.com/x"),
    ("-Durl=redis://:hunter2@cache:6379/0", "-Durl=redis://:***@cache:6379/0"),
    ("Authorization: Bearer hunter2hunter2", "Authorization: *** ***"),
    ("--header=Bearer hunter2hunter2", "--header=Bearer ***"),
    ("-Dx=eyJhbGciOiJub25l.eyJodW50ZXIyIn0.hunter2", "-Dx=***"),
    ("-Dx=AKIAIOSFODNN7EXAMPLE", "-Dx=***"),
    ("-Dx=ghp_hunter2hunter2hunter2hunter2", "-Dx=***"),
]
PLAIN = [
    "-Djavax.net.ssl.keyStore=/etc/keys/store.p12",
    "-Dserver.tokenUri=https://login/x",
    "-Dmonkey=1",
    "-Dpassword.file=/run/secrets/db",
    "-XX:+UseG1GC",
    "-XX:MaxRAMPercentage=75",
    "-Xlog:gc*:file=/var/log/gc.log",
    "-agentlib:jdwp=transport=dt_socket,server=y,address=*:5005",
    "https://example.com:8443/a?b=c",
    "/opt/keys:/opt/token/lib.jar",
    "com.example.TokenService",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "a=b",
    "",
]


@pytest.mark.parametrize(("argument", "masked"), SECRETS)
def test_what_looks_like_a_secret_is_masked(argument: str, masked: str) -> None:
    assert masking.arguments([argument]) == (masked,)
    # Masking is idempotent: a report masks values that a recording may have masked.
    assert masking.arguments([masked]) == (masked,)


@pytest.mark.parametrize("argument", PLAIN)
def test_what_does_not_stays(argument: str) -> None:
    assert masking.arguments([argument]) == (argument,)


def test_the_word_behind_an_option() -> None:
    words = (
        "java",
        "-Dmy.token",
        "Main",
        "--password",
        "hunter2",
        "--api-key",
        "--port",
        "80",
        "-token",
        "x",
    )
    assert masking.arguments(words) == (
        *("java", "-Dmy.token", "Main", "--password", "***", "--api-key", "--port", "80", "-token", "***"),
    )
    assert masking.command("Main --password hunter2 --port 80") == "Main --password *** --port 80"


def test_properties() -> None:
    assert masking.properties(
        {
            "db.password": "hunter2",
            "java.version": "17.0.9",
            "sun.java.command": "Main --token hunter2",
            "e": "",
        }
    ) == {"db.password": "***", "java.version": "17.0.9", "sun.java.command": "Main --token ***", "e": ""}


@pytest.fixture
def live_file(tmp_path: Path) -> Path:
    writer = LiveFileWriter(pid=1 << 22, process_start=1)  # the process has ended
    words = ("java", "-Xmx64m", "-Ddb.password=hunter2", "com.example.Main", "--token", "hunter2")
    writer.property("cmdline", "\x1f".join(words))
    writer.property("java.version", "17.0.9")
    writer.property("sun.java.command", "com.example.Main --token hunter2")
    writer.property("java.tool.options", "-Dapi.key=hunter2")
    stack = writer.stack(hook("malloc"))
    writer.block(0x1000, 100, stack)
    writer.count(stack, 1, 1, 100)
    return writer.write(tmp_path / "a.live")


def run(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    # 3: a gate on a recording this short cannot tell.
    assert main(list(map(str, words))) in ((0, 3) if words[0] == "check" else (0,)), capfd.readouterr().err
    return capfd.readouterr().out


def test_no_recording_and_no_report_has_them(
    live_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def written(path: Path) -> list[str]:
        for kind in ("html", "md", "json", "txt"):
            run(capfd, "report", path, "-o", tmp_path / f"a.{kind}")
        texts = [(tmp_path / f"a.{kind}").read_text() for kind in ("html", "md", "json", "txt")]
        texts += [
            run(capfd, "stats", path),
            run(capfd, "stats", path, "--json"),
            run(capfd, "leaks", path, "--json"),
        ]
        return texts

    assert not [text for text in written(live_file) if "hunter2" in text]
    recording = tmp_path / "a.offheap"
    record(live_file, recording)
    meta = (recording / "meta.json").read_text()
    assert "hunter2" not in meta
    assert "-Ddb.password=***" in meta
    assert '"main_class": "com.example.Main"' in meta
    assert not [text for text in written(recording) if "hunter2" in text]
    # An older offheap wrote values unmasked.
    (recording / "meta.json").write_text(meta.replace("***", "hunter2"))
    assert not [text for text in written(recording) if "hunter2" in text]


def test_they_are_kept_if_asked_for(
    live_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recording = tmp_path / "a.offheap"
    record(live_file, recording, keep_arguments=True)
    info = load(recording).info
    assert info.command_line[2:] == ("-Ddb.password=hunter2", "com.example.Main", "--token", "hunter2")
    assert info.properties["java.tool.options"] == "-Dapi.key=hunter2"
    assert info.arguments_kept
    assert "-Ddb.password=hunter2" in run(capfd, "stats", recording, "--json")


def test_recordings_and_reports_are_their_owners_alone(
    live_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recording, out = tmp_path / "a.offheap", tmp_path / "out"
    out.mkdir()
    shutil.copy(SAMPLES / "jemalloc.heap", tmp_path)
    writers = [
        *(("report", "IN/a.offheap", "-o", f"OUT/a.{kind}") for kind in ("html", "svg", "md", "json", "txt")),
        ("diff", "IN/a.offheap", "IN/a.offheap", "-o", "OUT/diff.html"),
        *(("export", "IN/a.offheap", "--format", name, "-o", f"OUT/{name}") for name in FORMATS),
        ("check", "IN/a.offheap", "--junit", "OUT/junit.xml"),
        ("nmt", "IN/a.offheap", "-o", "OUT/nmt.json"),
        ("import", "IN/jemalloc.heap", "-o", "OUT/imported.offheap"),
        ("symbolize", "IN/a.offheap", "-o", "OUT/symbolized.offheap"),
        ("anonymize", "IN/a.offheap", "-o", "OUT/anonymized.offheap"),
    ]
    before = os.umask(0o000)
    try:
        record(live_file, recording)
        run(capfd, "report", recording, "-o", tmp_path / "a.html")
        for words in writers:
            run(capfd, *(word.replace("IN", str(tmp_path)).replace("OUT", str(out)) for word in words))
    finally:
        os.umask(before)
    assert len(list(out.iterdir())) == len(writers)
    wrong = {
        path.name: oct(stat.S_IMODE(path.stat().st_mode))
        for path in (recording, *recording.rglob("*"), tmp_path / "a.html", *out.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) != (0o700 if path.is_dir() else 0o600)
    }
    assert not wrong
    # A user who opened a report to others wants the same of the next one.
    (tmp_path / "a.html").chmod(0o644)
    run(capfd, "report", recording, "-o", tmp_path / "a.html")
    assert stat.S_IMODE((tmp_path / "a.html").stat().st_mode) == 0o644


def test_a_live_file_is_its_owners_alone(probe_library: Path, tmp_path: Path) -> None:
    """The umask of the recorded program does not matter."""
    subprocess.run(
        [sys.executable, "-c", "print()"],
        env={**os.environ, "LD_PRELOAD": str(probe_library), "OFFHEAP": f"exact,dir={tmp_path}"},
        preexec_fn=lambda: os.umask(0o000),
        check=True,
        capture_output=True,
        timeout=60,
    )
    (live,) = tmp_path.glob("*.live")
    assert stat.S_IMODE(live.stat().st_mode) == 0o600


def test_run_and_attach_take_the_option(jre: Callable[[int], Path], tmp_path: Path) -> None:
    command = [jre(17), "-Xmx32m", "-Ddb.password=hunter2", "-version"]
    for option, expected in ((), "-Ddb.password=***"), (("--keep-arguments",), "-Ddb.password=hunter2"):
        output = tmp_path / f"{len(option)}.offheap"
        outcome = subprocess.run(
            offheap("run", *option, "-o", str(output), "--", *map(str, command)),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert outcome.returncode == 0, outcome.stderr
        assert expected in load(output).info.command_line
