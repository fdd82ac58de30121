"""A pytest plugin: the seed of the rotation also chooses Hypothesis's examples.

With the default seed a test's examples follow from its source alone, so that the commit decides what runs.
Another seed, or Hypothesis's own `--hypothesis-seed`, chooses other examples.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from harness.plugins import rotation

PROFILE = "offheap"


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its options
def pytest_configure(config: pytest.Config) -> None:
    own_seed = config.getoption("hypothesis_seed") is not None
    fixed = rotation.seed() == rotation.DEFAULT and not own_seed
    # The deadline is wall time, and other processes may load the machine.
    # The database has the examples that failed on this machine before.
    settings.register_profile(PROFILE, deadline=None, database=None, derandomize=fixed)
    settings.load_profile(PROFILE)
    if fixed:
        _use_no_constants_of_modules(config)
    elif not own_seed:
        config.option.hypothesis_seed = str(rotation.seed())


def _use_no_constants_of_modules(config: pytest.Config) -> None:
    """Hypothesis also tries constants of the loaded modules, which the tests before have loaded."""
    patch = pytest.MonkeyPatch()
    patch.setattr(providers, "_get_local_constants", Constants)
    config.add_cleanup(patch.undo)
