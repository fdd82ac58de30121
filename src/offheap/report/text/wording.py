"""What every report in words says alike: the process, how it was recorded, amounts with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

from offheap.analysis.sites.results import Live, Site
from offheap.analysis.stacks import cxx_names
from offheap.analysis.statistics.estimate import Estimate
from offheap.analysis.totals.stats import Stats
from offheap.quantities import RateUnit, format_count, format_duration, format_share, format_size
from offheap.recording.model import Budget, Frame, Info
from offheap.report.text.printable import place

_SIZES = tuple((1024**power, unit) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB")))


def process(info: Info) -> str:
    """`pid 4711, Java 17.0.9, com.example.Main`."""
    if info.imported:
        return ", ".join([f"imported from {info.imported}", *([f"pid {info.pid}"] if info.pid else [])])
    java = f"Java {info.java_version}" if info.java_version else "no JVM"
    parts = [f"pid {info.pid}", java, *([info.main_class] if info.main_class else [])]
    return ", ".join(parts)


def mode(info: Info) -> str:
    """`sampled every 512 KiB, 20.0 s until the process exited`."""
    if info.imported:
        return f"{sampling(info)}, {format_duration(info.duration_seconds)} from the first file to the last"
    ended = {
        "recording": "while the process ran on",
        "detached": "until the probe was stopped",
        "exited": "until the process exited",
        "killed": "until the process was killed",
    }[info.ended]
    return f"{sampling(info)}, {format_duration(info.duration_seconds)} {ended}"


def sampling(info: Info) -> str:
    """`every block`, `sampled every 512 KiB`; under a budget that is of the sizes sampled most rarely."""
    if info.mode == "exact":
        return "every block"
    return f"sampled every {format_size(info.interval_bytes)}{' or less' if info.budget else ''}"


def budget(value: Budget, seconds: float) -> str:
    """What was granted, what was spent in so many seconds, and how the intervals moved for it.

    A process that hardly computes is granted a share of one CPU, so the share of its own time alone would
    look like a broken budget.
    """
    least, greatest = format_size(value.least_interval_bytes), format_size(value.greatest_interval_bytes)
    spent = f"{value.spent_share:.2%} of {format_duration(value.cpu_seconds)} of CPU"
    if value.cpu_seconds < seconds:
        spent += f" ({value.spent_seconds / seconds:.2%} of one CPU)"
    moved = f"every {least}" if least == greatest else f"every {least} to {greatest}, by load and size"
    last = format_size(value.last_interval_bytes)
    return (
        f"{format_share(value.share)}; taking samples took {spent}, one {moved}; at last every {last} or less"
    )


def recorder(info: Info) -> str:
    """What the recording took beside the sampling."""
    cost = info.recorder
    assert cost
    return (
        f"{format_duration(cost.cpu_seconds)} of CPU by its last snapshot ({info.recorder_share:.1%} of one "
        f"CPU, start-up included), {format_size(cost.rss_bytes)} of memory at most until then"
    )


def amount(value: Estimate, write: Callable[[float], str]) -> str:
    """`1.4 MiB (1.3 MiB to 1.5 MiB)`: the 95 % interval in brackets, unless it is exact."""
    estimate, low = write(value.estimate), write(value.low)
    if math.isinf(value.high):
        return f"{estimate} ({low} or more)"
    high = write(value.high)
    if value.low == value.high or (low == estimate == high):
        return estimate
    return f"{estimate} ({low} to {high})"


def size(value: Estimate) -> str:
    """`1.4 MiB (1.3 to 1.5)`: short, all three in the unit of the largest."""
    return _short(value, "")


def rate(value: Estimate, unit: RateUnit) -> str:
    """`1.4 MiB/s (1.3 to 1.5)`."""
    scaled = (part * unit.seconds for part in (value.estimate, value.low, value.high))
    return _short(Estimate(*scaled), f"/{unit.name}")


def rates(value: Estimate, unit: RateUnit) -> str:
    """The same at length: `1.4 MiB/s (1.3 MiB/s to 1.5 MiB/s)`."""
    return amount(value, unit.format)


def in_blocks(in_bytes: Estimate, blocks: Estimate, what: str = "blocks") -> str:
    """`1.4 MiB (1.3 MiB to 1.5 MiB) in 12 (9 to 15) blocks`."""
    one = blocks.low == blocks.estimate == blocks.high == 1
    return f"{amount(in_bytes, format_size)} in {amount(blocks, format_count)} {what[:-1] if one else what}"


def held(site: Site) -> str:
    """What a site holds, and how much of it by the stack shown, unless that is all."""
    part = site.part_shown
    shown = (part.live_bytes, part.live_blocks) if part else None
    return holding(site.kind, site.live_bytes, site.live_blocks, shown)


def holding(
    kind: str,
    in_bytes: Estimate,
    blocks: Estimate,
    shown: tuple[Estimate, Estimate] | None,
    age: str = "",
) -> str:
    """Bytes in blocks, both of all call paths, and their age; `shown`: the part of the path shown."""
    what = things(kind)
    whole = f"{in_blocks(in_bytes, blocks, what)}{age}"
    return f"{whole}; the call path shown holds {in_blocks(*shown, what)}" if shown else whole


def things(kind: str) -> str:
    """What is counted of a kind of memory."""
    return {"mmap": "mappings", "java": "objects"}.get(kind, "blocks")


def live(value: Live) -> str:
    """Blocks, and mappings if there are any."""
    malloc = f"malloc {in_blocks(value.malloc_bytes, value.malloc_blocks)}"
    if not value.mapped_bytes.estimate:
        return malloc
    mappings = amount(value.mappings, format_count)
    mapped = amount(value.mapped_bytes, format_size)
    return f"{malloc}; mapped {mapped} of address space, touched or not, in {mappings} mappings"


def plural(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def samples(stats: Stats) -> str:
    """`8,734 samples, 7,992 with Java frames`; with --java-heap also those of Java objects."""
    text = plural(stats.samples, "sample")
    if stats.object_samples:
        text += f" and {stats.object_samples:,} of Java objects"
    if not stats.info.java_version:
        return text
    return f"{text}, {stats.info.joined:,} {'of both ' if stats.object_samples else ''}with Java frames"


def kind(frame: Frame) -> str:
    """The word before a frame's name: `java`, `native`; `new` before the class of an object."""
    return "new" if frame.kind == "class" else frame.kind


def name(frame: Frame, full: bool = False) -> str:
    """A frame's name as a line can bear it; `full`: as it is.  Not yet printable."""
    return frame.name if full or frame.kind in ("java", "class") else cxx_names.short(frame.name)


def where(frame: Frame) -> str:
    """The frame's place, "" where the name says it already (`libfoo.so+0x12`)."""
    found = place(frame)
    return "" if frame.kind in ("native", "jvm") and frame.name.startswith(found) else found


def _short(value: Estimate, per: str) -> str:
    parts = (value.estimate, value.low, value.high)
    largest = max((abs(part) for part in parts if math.isfinite(part)), default=0.0)
    scale, unit = next((s, u) for s, u in _SIZES if round(largest / s) < 1000 or u == "PiB")
    estimate, low, high = (_figure(part / scale, unit) for part in parts)
    if value.low == value.high or low == estimate == high:
        return f"{estimate} {unit}{per}"
    return f"{estimate} {unit}{per} ({low} to {high})"


def _figure(value: float, unit: str) -> str:
    if not math.isfinite(value):
        return "unbounded" if value > 0 else "unknown"
    text = f"{value:.1f}" if abs(value) < 99.95 and unit != "B" else f"{value:.0f}"
    return "0" if not text.strip("-0.") else text
