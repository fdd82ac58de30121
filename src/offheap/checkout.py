"""A development checkout: keeps its probe as new as the C it is made of.

An editable install runs straight from the checkout, where no packaging step runs again when a C file
changes.  Whoever is about to load the probe calls `refresh_probe()` first: it compares the sources with
the stamp beside the library (about a millisecond) and rebuilds only when they differ.  In an installed
wheel there is no probe/build.py and it does nothing.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from offheap.errors import UserError

_BUILD_SCRIPT = Path(__file__).resolve().parents[2] / "probe" / "build.py"


def refresh_probe() -> None:
    """Rebuilds src/offheap/_lib/liboffheap.so if a source changed; UserError with zig's words if not."""
    if not _BUILD_SCRIPT.is_file():
        return
    script = build_script()
    try:
        script.build_if_changed()
    except script.BuildError as error:
        raise UserError(
            f"the probe of this checkout cannot be built: {error}", f"see `python {_BUILD_SCRIPT}`"
        ) from error


def build_script() -> ModuleType:
    """probe/build.py of this checkout as a module."""
    spec = importlib.util.spec_from_file_location("probe_build", _BUILD_SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
