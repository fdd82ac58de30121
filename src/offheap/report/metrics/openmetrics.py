"""Owners as OpenMetrics, by Prometheus's own client library: the extra `metrics`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from offheap.analysis.owners.accounts import JVMAccounts
from offheap.errors import UserError
from offheap.report.metrics.bounded_server import BoundedServer
from offheap.report.text.printable import printable

_PROCESS = ("pid", "name")
# Everybody who reaches the address may scrape it: the JVMs are inspected at most this often.
_FRESH_SECONDS = 1.0


class Owners(Collector):
    """Inspects the JVMs at every scrape, unless the last result is fresh; concurrent scrapes wait."""

    def __init__(self, inspect: Callable[[], Iterable[JVMAccounts]]) -> None:
        self._inspect = inspect
        self._lock = threading.Lock()
        self._last: tuple[float, list[JVMAccounts]] | None = None

    def describe(self) -> Iterable[Metric]:
        # Without it, registering would inspect the JVMs.
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > _FRESH_SECONDS:
                found = list(self._inspect())
                self._last = time.monotonic(), found
            found = self._last[1]
        yield from families(found)


def families(found: Iterable[JVMAccounts]) -> Iterator[Metric]:
    """The metrics of one scrape, all in bytes but offheap_up."""
    up = GaugeMetricFamily("offheap_up", "1 if the JVM could be read, else 0", labels=_PROCESS)
    rss = GaugeMetricFamily("offheap_rss_bytes", "resident memory", labels=_PROCESS)
    owner = GaugeMetricFamily(
        "offheap_owner_bytes", "resident memory by owner; all owners sum to RSS", labels=(*_PROCESS, "owner")
    )
    external = GaugeMetricFamily(
        "offheap_external_malloc_bytes",
        "malloc's blocks that are not the JVM's, with Native Memory Tracking",
        labels=_PROCESS,
    )
    trimmable = GaugeMetricFamily(
        "offheap_trimmable_bytes", "what malloc_trim would give back", labels=_PROCESS
    )
    for one in found:
        # The JVM's user chooses the name: text that is not UTF-8 would fail the scrape for all JVMs.
        labels = [str(one.pid), printable(one.name)]
        accounts = one.accounts
        up.add_metric(labels, 1 if accounts else 0)
        if accounts is None:
            continue
        rss.add_metric(labels, accounts.memory.rss)
        for holding in accounts.holdings:
            owner.add_metric([*labels, holding.owner], holding.bytes)
        owner.add_metric([*labels, "unattributed"], accounts.unattributed_bytes)
        heap = accounts.native_heap
        if heap:
            trimmable.add_metric(labels, heap.trimmable)
            if heap.told_apart:
                external.add_metric(labels, heap.external.bytes)
    yield from (up, rss, owner, external, trimmable)


def serve(host: str, port: int, inspect: Callable[[], Iterable[JVMAccounts]]) -> BoundedServer:
    """Serves until it is closed, on threads of its own; UserError when the address is taken."""
    registry = CollectorRegistry()
    registry.register(Owners(inspect))
    try:
        return BoundedServer(host, port, make_wsgi_app(registry))
    except OSError as error:
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror}", "give another address") from None
