"""`offheap where --all` and `--serve` with real JVMs and a real scrape."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from harness.jvms.waiting_jvm import read_line, waiting_jvm
from offheap.analysis.owners.accounts import JVMAccounts
from offheap.cli import where_all
from offheap.inspect.all_jvms import inspect_all_jvms
from offheap.report.metrics import openmetrics

WHERE = (sys.executable, "-m", "offheap", "where")


def run(*arguments: object, status: int = 0) -> str:
    outcome = subprocess.run([*WHERE, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert outcome.returncode == status, outcome.stderr
    return outcome.stderr if status else outcome.stdout


def test_a_line_for_each(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes) as one, waiting_jvm(jre(21), waiting_classes) as other:
        told = run("--all", "--no-attach")
        lines = [line for line in told.splitlines() if line.split()[-1:] == ["Waiting"]]
        assert {str(one.pid), str(other.pid)} <= {line.split()[0] for line in lines}
        assert told.split()[:3] == ["PID", "RSS", "HEAP"]
        document = json.loads(run("--all", "--no-attach", "--json"))
        assert document["schema"] == "offheap.where-all/1"
        found = {jvm["pid"]: jvm for jvm in document["jvms"]}
        for pid in (one.pid, other.pid):
            sums = sum(owner["bytes"] for owner in found[pid]["owners"]) + found[pid]["unattributed_bytes"]
            assert sums == found[pid]["rss_bytes"]
        assert one.answers()
        assert other.answers()


def test_a_process_that_ends_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a JVM that ended since it was listed THEN it has a reason, whatever the kernel refuses first."""
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    (one,) = inspect_all_jvms(ended.pid, attach=False)
    assert (one.pid, one.accounts) == (ended.pid, None)
    assert one.error
    ended.wait()

    def refuses(pid: int, **_: object) -> None:
        raise PermissionError(f"/proc/{pid}/pagemap")

    monkeypatch.setattr("offheap.inspect.all_jvms.inspect_process", refuses)
    (one,) = inspect_all_jvms(os.getpid(), attach=False)
    assert "has ended" in one.error


def test_a_scrape(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(17), waiting_classes, "-XX:NativeMemoryTracking=summary") as jvm:
        server = subprocess.Popen([*WHERE, str(jvm.pid), "--serve", ":0"], stdout=subprocess.PIPE)
        try:
            line = read_line(server, 60).decode()
            match = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
            assert match, line
            with urllib.request.urlopen(match[0], timeout=60) as answer:
                text = answer.read().decode()
            families = {family.name: family.samples for family in text_string_to_metric_families(text)}
            (up,) = families["offheap_up"]
            assert (up.labels, up.value) == ({"pid": str(jvm.pid), "name": "Waiting"}, 1.0)
            (rss,) = families["offheap_rss_bytes"]
            owners = {sample.labels["owner"]: sample.value for sample in families["offheap_owner_bytes"]}
            assert sum(owners.values()) == rss.value
            assert {"java-heap", "metaspace", "unattributed"} <= owners.keys()
            assert rss.value > 20 << 20
            request = urllib.request.Request(match[0], data=b"x", method="POST")
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=60)
            assert refused.value.code == 405
            refused.value.close()
            assert jvm.answers()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
            assert server.stdout
            server.stdout.close()
        assert server.returncode == 0


def test_a_hostile_name_is_a_label_like_others() -> None:
    class One(Collector):
        def collect(self) -> Iterator[Metric]:
            name = 'evil"} 1\n\\\x1b[2J\r\u202e\udcff'
            yield from openmetrics.families([JVMAccounts(1, name, None), JVMAccounts(2, "Main", None)])

    registry = CollectorRegistry()
    registry.register(One())
    text = generate_latest(registry).decode()
    assert not set(text) & set("\x1b\r\u202e")
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    names = [sample.labels["name"] for sample in families["offheap_up"]]
    assert names == ['evil"} 1\\x0a\\\\x1b[2J\\x0d\\u202e\\udcff', "Main"]


def test_addresses() -> None:
    assert where_all.address(":9404") == ("127.0.0.1", 9404)
    assert where_all.address("9404") == ("127.0.0.1", 9404)
    assert where_all.address("0.0.0.0:1") == ("0.0.0.0", 1)
    assert where_all.address("[::1]:80") == ("::1", 80)


def test_bad_input() -> None:
    for arguments, word in (
        (("--serve", "nowhere"), "not an address"),
        (("--serve", ":70000"), "not an address"),
        (("--all", "4711"), "every JVM"),
        (("--all", "--watch", "10m"), "one process"),
        ((), "no process is given"),
        (("no-such-main-class", "--serve", ":0"), "no JVM has"),
    ):
        line = run(*arguments, status=2)
        assert word in line
        assert line.count("\n") == 1


def test_without_the_library_it_says_so() -> None:
    code = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from offheap.cli.main import main\n"
        "sys.exit(main(['where', '--all', '--serve', ':0']))"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 2
    assert "pip install 'offheap[metrics]'" in outcome.stderr


def test_the_tree_drills_down_to_addresses(jre: Callable[[int], Path], waiting_classes: Path) -> None:
    with waiting_jvm(jre(21), waiting_classes) as jvm:
        told = run(jvm.pid, "--tree")
        below = told[told.index(" RSS\n") :]
        heap = below[below.index("Java heap") :]
        assert 0 < heap.index("generation") < heap.index(" rw-p")
        document = json.loads(run(jvm.pid, "--json"))
        ranges = document["ranges"]
        assert sum(one["bytes"] for one in ranges) == document["rss_bytes"]
        starts = [int(one["start"], 16) for one in ranges]
        assert starts == sorted(starts)
        assert all(int(low["end"], 16) <= start for low, start in zip(ranges, starts[1:], strict=False))
        sums: dict[str | None, int] = {}
        for one in ranges:
            sums[one["owner"]] = sums.get(one["owner"], 0) + one["bytes"]
        owners = {owner["owner"]: owner["bytes"] for owner in document["owners"]}
        malloc = sum(
            owners.pop(name, 0) for name in ("malloc", "malloc-free", "jvm-malloc", "direct-buffers")
        )
        assert sums.pop("malloc") == malloc
        assert sums.pop(None, 0) == document["unattributed_bytes"]
        assert sums == owners
    assert "one measurement" in run("--all", "--tree", status=2)
