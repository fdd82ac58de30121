"""One leak is one suspect: the parts of one object, an agent's callback, layers of the run time."""

from __future__ import annotations

import pytest

from harness.simulation import (
    MALLOC,
    Behaviour,
    Cache,
    Churn,
    Generations,
    Leak,
    Process,
    WarmUp,
    inflater,
    java,
    jvm,
    native,
    native_stack,
)
from offheap.analysis.leaks.leaks import Ranking, ranking
from offheap.analysis.leaks.results import Suspect
from offheap.recording.model import Frame

CALLERS = (java("com.example.Feed.open", 10), java("com.example.Main.main", 20))


def codec(method: str, line: int = 5) -> tuple[Frame, ...]:
    """The blocks of one method of a library's object, when the application opens it."""
    return (
        MALLOC,
        native(f"Java_org_codec_{method}", "libcodec.so"),
        java(f"org.codec.Codec.{method}"),
        java("org.codec.Codec.open", line),
        *CALLERS,
    )


def ranked(*stacks: tuple[tuple[Frame, ...], Behaviour], exact: bool = False, seed: int = 7) -> Ranking:
    process = Process(duration=60, seed=seed)
    for stack, behaviour in stacks:
        process.add(stack, behaviour)
    return ranking(process.record(exact=exact, interval=16384))


def at(found: Ranking, name: str = "com.example.Feed.open") -> list[Suspect]:
    return [suspect for suspect in found if suspect.blamed.name == name]


@pytest.mark.parametrize("exact", [True, False])
def test_the_parts_of_one_object_are_one_suspect(exact: bool) -> None:
    process = Process(duration=60, seed=3)
    one = process.add(codec("init"), Leak(100, 4096))
    other = process.add(codec("buffer", 6), Leak(1, 64))
    process.blocks[other] = type(process.blocks[one])(
        process.blocks[one].births, process.blocks[one].deaths, process.blocks[one].sizes / 64
    )
    found = ranking(process.record(exact=exact, interval=16384))
    (suspect,) = at(found)
    assert suspect.verdict == "leak"
    assert suspect.site.stacks == (one, other)
    assert [path.inner[2].name for path in suspect.site.paths] == [
        "org.codec.Codec.init",
        "org.codec.Codec.buffer",
    ]
    assert suspect.called is not None
    assert suspect.called.name == "org.codec.Codec.open"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "healthy",
    [
        Churn(100, 4096, 1.0),
        Churn(2000, 512, 0.2),
        WarmUp(2000, 4096, 2.0),
        Cache(200, 4096, 500),
        Generations(50, 4096, 10.0),
        Churn(2000, 4096, 4.0),
    ],
    ids=lambda behaviour: type(behaviour).__name__,
)
def test_a_healthy_part_hides_no_leak_and_is_not_called_one(healthy: Behaviour, exact: bool) -> None:
    found = ranked((codec("init"), Leak(50, 4096)), (codec("scratch", 6), healthy), exact=exact)
    leak, *others = at(found)
    assert leak.verdict == "leak"
    assert [frame.name for frame in leak.site.stack][2] == "org.codec.Codec.init"
    assert len(leak.site.stacks) == 1
    assert all(suspect.verdict != "leak" for suspect in others)


INDEX = (MALLOC, native("Java_x"), java("org.index.Index.build", 3), *CALLERS)
FLUSH = (MALLOC, native("Java_y"), java("org.codec.Codec.flush", 9), *CALLERS)


def test_another_library_is_another_suspect() -> None:
    found = ranked((codec("init"), Leak(50, 4096)), (INDEX, Leak(50, 4096)))
    assert sorted(suspect.called.name for suspect in at(found) if suspect.called) == [
        "org.codec.Codec.open",
        "org.index.Index.build",
    ]


@pytest.mark.parametrize("exact", [True, False])
def test_what_another_method_of_the_library_adds_to_the_object_is_one_suspect(exact: bool) -> None:
    process = Process(duration=60, seed=3)
    one = process.add(codec("init"), Leak(50, 4096))
    other = process.add(FLUSH, Leak(1, 4096))
    process.blocks[other] = process.blocks[one]
    (suspect,) = at(ranking(process.record(exact=exact, interval=16384)))
    assert suspect.site.stacks == (one, other)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    "other",
    [Leak(200, 4096, start=20.0), WarmUp(4000, 4096, 12.0), Cache(400, 4096, 8000), Churn(500, 4096, 8.0)],
    ids=str,
)
def test_what_another_method_keeps_otherwise_is_a_suspect_of_its_own(other: Behaviour, exact: bool) -> None:
    found = ranked((codec("init"), Leak(50, 4096)), (FLUSH, other), exact=exact)
    leak = next(
        suspect for suspect in at(found) if suspect.called and suspect.called.name == "org.codec.Codec.open"
    )
    assert len(leak.site.stacks) == 1
    assert leak.verdict == "leak"


def test_callers_of_the_application_stay_apart() -> None:
    stacks = [(*codec("init")[:-1], java(f"com.example.Main.{name}", 30)) for name in ("nightly", "admin")]
    found = ranked(*((stack, Leak(50, 4096)) for stack in stacks))
    assert len(at(found)) == 2


@pytest.mark.parametrize("other", [Leak(50, 4096), WarmUp(2000, 4096, 2.0)], ids=str)
def test_the_ways_by_which_a_framework_calls_are_one_suspect(other: Behaviour) -> None:
    ways = ("EatWhatYouKill.runTask", "QueuedThreadPool.runJob")
    stacks = [
        (
            *codec("init")[:-1],
            java("com.example.Main$$Lambda/0x00007f0001.handle"),
            java(f"org.eclipse.jetty.util.thread.{way}", 40),
            java("java.lang.Thread.run", 840),
        )
        for way in ways
    ]
    found = ranked((stacks[0], Leak(50, 4096)), (stacks[1], other))
    (suspect,) = at(found)
    assert len(suspect.site.stacks) == 2
    assert suspect.verdict == "leak"


def test_whatever_native_function_java_called_is_one_site() -> None:
    # Foreign functions: malloc and calloc of one method, each with its own line.
    def downcall(function: str, line: int) -> tuple[Frame, ...]:
        return (
            native(function, "libc.so.6"),
            java("java.lang.invoke.LambdaForm$MH/0x00007f0001.invoke"),
            java("com.example.Feed.open", line),
            CALLERS[1],
        )

    for lines in ((10, 10), (10, 11)):
        stacks = (downcall("malloc", lines[0]), downcall("calloc", lines[1]))
        found = ranked(*((stack, Leak(50, 4096)) for stack in stacks))
        (suspect,) = at(found)
        assert len(suspect.site.stacks) == 2


EVENT = (
    native("on_sampled(_jvmtiEnv*)", "libwatch.so"),
    jvm("JvmtiExport::post_sampled_object_alloc(JavaThread*, oop)"),
    jvm("MemAllocator::allocate() const"),
    jvm("OptoRuntime::new_array_C(Klass*, int, JavaThread*)"),
)


def test_an_agents_callback_is_one_suspect_whatever_java_code_ran() -> None:
    inner = (
        (
            native("std::map<long, Birth>::operator[](long const&)", "libwatch.so"),
            native("remember", "libwatch.so"),
        ),
        (
            native("std::string::_M_create(unsigned long&, unsigned long)", "libstdc++.so.6"),
            native("remember", "libwatch.so"),
        ),
    )
    places = [
        java("com.example.Feed.open", 10),
        java("com.example.Orders.load", 7),
        java("java.util.HashMap.put", 9),
    ]
    stacks = [
        (MALLOC, *its, *EVENT, place, java("java.lang.Thread.run", 840)) for place in places for its in inner
    ]
    found = ranked(*((stack, Leak(40, 512)) for stack in stacks))
    (suspect,) = [one for one in found if one.verdict == "leak"]
    assert len(suspect.site.stacks) == len(stacks)
    assert suspect.blamed.name == "remember"
    assert {frame.name for frame in suspect.triggers} == {place.name for place in places}
    assert all(path.inner[-1] == EVENT[0] for path in suspect.site.paths)
    assert not at(found), "no Java method is blamed for what the agent keeps"
    from offheap.analysis.leaks.answer import answer, headline

    assert headline(suspect).startswith(
        "libwatch.so callback (SampledObjectAlloc), in remember, triggered by allocations in "
    )
    assert f"allocated by {headline(suspect)}" in answer(found)


def test_layers_of_the_run_time_do_not_split_a_native_site() -> None:
    node = native_stack("std::map<long, Entry>::operator[](long const&)", "app::remember", "main")
    string = (
        MALLOC,
        native("operator new(unsigned long)", "libstdc++.so.6"),
        native("std::string::_M_create(unsigned long&, unsigned long)", "libstdc++.so.6"),
        *node[2:],
    )
    found = ranked((node, Leak(50, 512)), (string, Leak(50, 512)))
    assert [len(suspect.site.stacks) for suspect in at(found, "app::remember")] == [2]


def test_what_hotspot_wants_below_a_java_method_is_not_joined_with_what_it_allocates() -> None:
    own = (
        MALLOC,
        jvm("os::malloc(unsigned long, MEMFLAGS)"),
        jvm("SymbolTable::add(char*)"),
        jvm("JVM_DefineClass"),
        *CALLERS,
    )
    found = ranked(
        (own, Leak(50, 4096)), ((MALLOC, native("Java_com_example_Feed_open"), *CALLERS), Leak(50, 4096))
    )
    assert len(at(found)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_parts_are_one_suspect_though_sampled_rarely(seed: int) -> None:
    process = Process(duration=60, seed=seed)
    for name in ("init", "buffer", "table"):
        process.add(codec(name), Leak(60, 4096))
    process.add(inflater("com.example.Other.work"), Churn(300, 4096, 0.5))
    found = ranking(process.record(interval=256 * 1024))
    assert [suspect.verdict for suspect in at(found)] == ["leak"]
