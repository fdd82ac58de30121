"""The server that tests push profiles to, in build/push-servers: an OpenTelemetry collector.

`python -m harness.installs.push_servers` makes it from its modules by Go and the collector's own builder:
several minutes of CPU the first time, since Go keeps what it compiles.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from harness.paths import ROOT

FOLDER = ROOT / "build" / "push-servers"
COLLECTOR = FOLDER / "otelcol"
REMEDY = "make push-servers"
# Versions of the collector's modules; stable ones have a number of their own.
_VERSION, _STABLE = "v0.161.0", "v1.67.0"
# What takes profiles by HTTP, and what writes them to a file: nothing else.
_MANIFEST = f"""dist:
  name: otelcol
  description: a collector of profiles for tests
  version: {_VERSION[1:]}
  output_path: {{output}}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver {_VERSION}
exporters:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter {_VERSION}
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider {_STABLE}
conf_resolver:
  default_uri_scheme: file
"""


def build() -> None:
    """Makes the collector, unless it is there."""
    if COLLECTOR.exists():
        print(f"{COLLECTOR} is there already: remove it for another one")
        return
    if not shutil.which("go"):
        raise SystemExit("harness.push_servers: go is not installed; run `apt-get install golang-go`")
    sources = FOLDER / "sources"
    sources.mkdir(parents=True, exist_ok=True)
    manifest = FOLDER / "manifest.yaml"
    manifest.write_text(_MANIFEST.format(output=sources))
    # One compiler at a time: beside other work, and within the memory of a small machine.
    environment = {**os.environ, "GOBIN": str(FOLDER), "GOFLAGS": "-p=1", "CGO_ENABLED": "0"}

    def run(*words: str | Path, folder: Path = FOLDER) -> None:
        subprocess.run([str(word) for word in words], check=True, cwd=folder, env=environment)

    run("go", "install", f"go.opentelemetry.io/collector/cmd/builder@{_VERSION}")
    run(FOLDER / "builder", "--config", manifest, "--skip-compilation")
    run("go", "build", "-ldflags=-s", "-o", COLLECTOR, ".", folder=sources)


if __name__ == "__main__":
    build()
