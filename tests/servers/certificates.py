"""Certificates for test servers, signed by an authority that is made for the run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers.system import require_program


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path


def make_certificate(
    folder: Path, name: str, names: str, authority: Certificate | None = None
) -> Certificate:
    """A certificate for `names` (`DNS:a.test,IP:127.0.0.1`), signed by `authority`; without names,
    an authority.
    """
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    command = [
        require_program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", f"/CN={name}", "-out", str(made.certificate), "-keyout", str(made.key),
    ]  # fmt: skip
    if names:
        command += ["-addext", f"subjectAltName={names}", "-addext", "basicConstraints=CA:FALSE"]
    if authority:
        command += ["-CA", str(authority.certificate), "-CAkey", str(authority.key)]
    subprocess.run(command, check=True, capture_output=True)
    return made
