"""Where the parts of the checkout are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBE = ROOT / "probe"
WEB = ROOT / "web"
DOCS = ROOT / "docs"
TESTS = ROOT / "tests"
HARNESS = ROOT / "harness"
BENCHMARKS = ROOT / "benchmarks"
# What tests and real JVMs have written once, to be read again.
DATA = TESTS / "data"
# Sources of programs, agents and libraries, compiled for a test.
JAVA = HARNESS / "programs" / "java"
AGENTS = HARNESS / "programs" / "agents"
HEAPS = HARNESS / "programs" / "heaps"
IMAGES = HARNESS / "programs" / "images"
