"""A pytest plugin: `--jdk 27` keeps only the tests that are parametrized with this JDK."""

from __future__ import annotations

import re

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--jdk", type=int, action="append", default=[], help="only tests of this JDK (OFFHEAP_JDKS adds some)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: list[int] = config.getoption("--jdk")
    if not wanted:
        return
    of_a_jdk = re.compile(rf"(?<![\w.])({'|'.join(map(str, wanted))})(?![\w.])")
    kept = [item for item in items if isinstance(item, pytest.Function) and _is_of(item, of_a_jdk)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _is_of(item: pytest.Function, jdk: re.Pattern[str]) -> bool:
    return hasattr(item, "callspec") and bool(jdk.search(item.callspec.id))
