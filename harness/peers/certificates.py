"""Certificates for servers on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import needs


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Makes a certificate for 127.0.0.1 that no authority signed. Returns its file and that of its key."""
    needs.program("openssl", "to make a certificate")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
