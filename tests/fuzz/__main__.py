"""Fuzz a target with atheris: `python -m tests.fuzz TARGET [OPTIONS]`.

OPTIONS are those of libFuzzer:

    pip install atheris
    python -m tests.fuzz html -max_total_time=600
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["lycosa"]):
    from tests.fuzz.mutate import cases
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, target = sys.argv[1], TARGETS[sys.argv[1]]
    with (
        tempfile.TemporaryDirectory() as corpus,
        tempfile.NamedTemporaryFile("w", suffix=".dict") as words,
    ):
        for number, data in enumerate((*target.seeds, *cases(name))):
            (Path(corpus) / str(number)).write_bytes(data)
        for token in target.tokens:
            words.write('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n')
        words.flush()
        atheris.Setup(
            [
                sys.argv[0],
                f"-dict={words.name}",
                f"-artifact_prefix={name}-",
                *sys.argv[2:],
                corpus,
            ],
            target.check,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
