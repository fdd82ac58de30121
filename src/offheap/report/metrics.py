"""Owners as OpenMetrics, by Prometheus's own client library: the extra `metrics`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from offheap.errors import UserError
from offheap.look_all import Looked
from offheap.report.text import printable

_PROCESS = ("pid", "name")


class Owners(Collector):
    """Looks anew at every scrape; two at once wait for each other."""

    def __init__(self, look: Callable[[], Iterable[Looked]]) -> None:
        self._look = look
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        # Without it, registering would take a look.
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            looked = list(self._look())
        yield from families(looked)


def families(looked: Iterable[Looked]) -> Iterator[Metric]:
    """The metrics of one scrape, all in bytes but offheap_up."""
    up = GaugeMetricFamily("offheap_up", "1 if the JVM could be looked at, else 0", labels=_PROCESS)
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
    for one in looked:
        # The name is its owner's choice: what is no UTF-8 would fail the scrape for all JVMs.
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


def serve(host: str, port: int, look: Callable[[], Iterable[Looked]]) -> WSGIServer:
    """Serves until it is shut down, on a thread of its own; UserError when the address is taken."""
    registry = CollectorRegistry()
    registry.register(Owners(look))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise UserError(f"cannot listen on {host}:{port}: {error.strerror}", "give another address") from None
    return server
