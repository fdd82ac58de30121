"""The programs of examples/published: the manifest is sound, and one of them from Maven to the verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from harness import needs
from harness.evaluation import published_answers, published_outcomes, published_programs, published_runs
from harness.evaluation.published_answers import Answers
from harness.evaluation.published_outcomes import Case
from harness.evaluation.published_programs import TWINS, Program
from harness.peers import maven
from offheap.analysis.owners.results import Kind

PROGRAMS = published_programs.programs()
MANIFEST = published_programs.manifest()


def test_every_artifact_is_pinned_and_used() -> None:
    named = {artifact for program in PROGRAMS.values() for artifact in program.artifacts}
    assert named == set(MANIFEST["artifacts"])
    for artifact, digest in MANIFEST["artifacts"].items():
        assert re.fullmatch(r"[\w.-]+(:[\w.-]+){2,3}", artifact)
        assert not artifact.endswith("SNAPSHOT")
        assert re.fullmatch(r"[0-9a-f]{64}", digest), artifact


def test_there_are_twenty_programs_and_several_of_each_class() -> None:
    assert len(PROGRAMS) >= 20
    count = {name: sum(name in program.classes for program in PROGRAMS.values()) for name in CLASSES}
    assert set().union(*(program.classes for program in PROGRAMS.values())) == set(CLASSES)
    assert min(count.values()) >= 2, count


CLASSES = (
    "freed by a finalizer",
    "freed by a reference queue",
    "cache that fills",
    "frees in batches",
    "library extracted",
    "library extracted and deleted",
    "foreign functions",
    "agent",
    "pooled buffers",
    "machine learning",
    "server that warms up",
    "mapped files",
)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=lambda program: program.name)
def test_the_program_has_both_twins_and_the_frame_at_fault(program: Program) -> None:
    sources = "".join(
        path.read_text() for path in (published_programs.PUBLISHED / program.name).glob("*.java")
    )
    package, _, simple = program.main.rpartition(".")
    assert f"package {package};" in sources
    assert re.search(rf"class {simple}\b", sources)
    if program.agent:
        agent = (published_programs.AGENTS / f"{program.agent}.cpp").read_text()
        assert '"healthy"' in agent
        assert re.search(rf"\b{program.frame.rpartition('::')[2]}\(", agent)
    else:
        assert "Load.leaks()" in sources
        assert program.frame.startswith(f"{package}.")
        assert re.search(rf"\b{program.frame.rpartition('.')[2]}\(.*\{{", sources)
    assert "Load.leaked(" in sources
    assert set(program.where) == set(TWINS)
    assert {kind for kinds in program.where.values() for kind in kinds} <= set(get_args(Kind))
    assert program.jdks
    assert set(program.jdks) <= set(published_programs.JDKS)
    assert f"[{program.name}]({program.name})" in (published_programs.PUBLISHED / "README.md").read_text()


def test_each_twin_has_its_turn_each_way_with_and_without_load() -> None:
    chosen = published_runs.cases(list(PROGRAMS.values()), 0, published_programs.JDKS, full=False)
    everything = published_runs.cases(list(PROGRAMS.values()), 0, published_programs.JDKS, full=True)
    assert set(chosen) <= set(everything)
    for program in PROGRAMS.values():
        for twin in TWINS if program.attach else TWINS[1:]:
            its = [case for case in chosen if (case.program, case.twin) == (program.name, twin)]
            assert sorted(case.way for case in its) == ["attach", "run"]
            assert sorted(case.busy for case in its) == [False, True]
    every = {(case.jdk, case.way, case.busy) for case in chosen}
    assert len(every) == len(published_programs.JDKS) * len(published_outcomes.WAYS) * 2


def quantity(low: float, high: float) -> dict[str, float]:
    return {"estimate": (low + high) / 2, "low": low, "high": high}


def suspect(rank: int, verdict: str, *names: str, rate: float = 2e5) -> dict[str, Any]:
    stack = [{"name": name, "kind": "java"} for name in names]
    return {
        "rank": rank,
        "verdict": verdict,
        "kind": "malloc",
        "growth_bytes_per_second": quantity(0.8 * rate, 1.2 * rate),
        "blamed": stack[-1],
        "stack": stack,
    }


def said(
    conclusion: str,
    gate: str,
    kind: str,
    suspects: list[dict[str, Any]],
    *,
    excluded: float = 3e4,
    bound: float | None = None,
    malloc: float = 0.0,
    ticket: str | None = None,
) -> Answers:
    answer = f"{conclusion}: malloc, called by {suspects[0]['blamed']['name'] if suspects else 'nobody'}_1"
    power = {"conclusion": conclusion, "bytes_per_second": excluded}
    owners = [{"owner": "malloc", "growth_bytes_per_second": quantity(0.9 * malloc, 1.1 * malloc)}]
    verdict = {"kind": kind, "needs_seconds": None, "power": bound and {"bytes_per_second": bound}}
    escaped = re.sub(r"([_$])", r"\\\1", answer)
    return Answers(
        leaks={"answer": answer, "power": power, "suspects": suspects},
        check={"outcome": gate},
        text=answer.replace(" ", "\n"),
        ticket=f"## Report\n\n**{escaped if ticket is None else ticket}**\n",
        where={"verdict": verdict, "owners": owners},
    )


LEAK = [suspect(1, "leak", "malloc", "com.example.Shop.buy")]


@pytest.mark.parametrize(
    "answers",
    [
        said("leak", "failed", "native-malloc", LEAK, malloc=2e5),
        said("leak", "failed", "stable", LEAK, bound=3e5),
        said("no leak", "passed", "stable", [], bound=3e4),
        said("no leak", "passed", "native-malloc", [], malloc=4e4),
        said("growing", "cannot tell", "cannot tell yet", [suspect(1, "growing", "a.B.c")]),
    ],
)
def test_answers_that_agree_are_no_contradiction(answers: Answers) -> None:
    assert published_answers.contradictions(answers) == []


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (said("leak", "passed", "native-malloc", LEAK), "check passed"),
        (
            said("leak", "failed", "native-malloc", LEAK, ticket="No leak found."),
            "the ticket has another answer",
        ),
        (said("leak", "failed", "stable", LEAK, bound=1e5), "where RECORDING stable"),
        (said("no leak", "passed", "native-malloc", [], malloc=2e5), "where RECORDING says native-malloc"),
        (
            said(
                "leak",
                "failed",
                "native-malloc",
                [*LEAK, suspect(2, "growing", "malloc", "com.example.Shop.buy")],
            ),
            "growing and leak",
        ),
    ],
)
def test_answers_that_cannot_both_be_true_are_one(answers: Answers, words: str) -> None:
    (found,) = published_answers.contradictions(answers)
    assert words in found


def test_the_leak_is_known_by_the_application_frame() -> None:
    program = Program(
        "shop",
        "",
        (),
        "com.example.Shop",
        (),
        "com.example.Shop.buy",
        "",
        {"leak": ("native-malloc",), "healthy": ()},
    )
    suspects = [
        suspect(1, "leak", "malloc", "org.other.Library.take"),
        suspect(2, "leak", "com.example.Shop.buy"),
    ]
    judged = published_answers.judge(program, "leak", said("leak", "failed", "native-malloc", suspects))
    assert (judged.rank, judged.found, judged.headline, judged.shown) == (2, True, False, False)
    assert judged.accused == ("org.other.Library.take",)
    assert judged.growth == pytest.approx((2e5, 1.6e5, 2.4e5))
    assert judged.where == {"recording": ("right", "native-malloc")}
    healthy = published_answers.judge(program, "healthy", said("leak", "failed", "native-malloc", suspects))
    assert (healthy.rank, healthy.accused[0]) == (0, "org.other.Library.take")
    assert healthy.where == {"recording": ("wrong", "native-malloc")}


@pytest.mark.parametrize("case", [Case("jna-labels", "leak", 21, "attach", busy=False)], ids=str)
def test_a_leak_in_a_published_library_is_found(case: Case, jres: dict[int, Path], tmp_path: Path) -> None:
    needs.program("mvn")
    needs.jre(case.jdk, case.jdk in jres)
    program = PROGRAMS[case.program]
    if published_programs.compiler(program.release) is None:
        needs.jdk(program.release)
    try:
        ready = published_programs.prepare(program)
    except maven.Unavailable as error:
        needs.skip(str(error), needs.INTERNET)
    outcome = published_runs.run(case, ready, tmp_path, 20.0)
    assert outcome.judged.found, published_outcomes.describe(outcome)
    assert outcome.judged.shown
    assert not outcome.judged.accused
    assert outcome.error is not None
    assert outcome.error < 0.5
