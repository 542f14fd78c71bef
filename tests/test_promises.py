"""Every promise of the documentation has a test that proves it.

`tests/test_docs.py` compares the generated page of promises.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.promises import ROOT, BadMarker, Proof, problems, promises, proofs


def test_every_promise_has_a_proof_and_every_marker_names_a_promise() -> None:
    rows = list(problems(proofs()))
    assert not rows, "\n".join(rows)
    assert len(promises()) > 100


def test_promises_and_markers_without_each_other_are_reported() -> None:
    first, *others = [promise.id for promise in promises()]
    marked = [Proof("a.py::test_a", tuple(others), "test"), Proof("a.py::test_b", (), "test")]
    assert list(problems(marked)) == [
        f"tests/promises.toml: no test has the marker proves({first!r})",
        "a.py::test_b: the marker proves names no promise",
    ]
    assert list(problems([Proof("a.py::test_a", (first, *others, "durability-x"), "test")])) == [
        "a.py::test_a: tests/promises.toml has no promise 'durability-x'"
    ]


@pytest.mark.parametrize("page", ["explanation/protocol.md", "explanation/security.md"])
def test_every_section_of_the_pages_about_guarantees_states_a_promise(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, flags=re.M)
    sections = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    stated = {promise.stated.partition("#")[2] for promise in promises() if page in promise.stated}
    assert len(sections) >= 4
    assert stated - {""} == sections


def _marked(folder: Path, source: str, name: str = "test_x.py") -> tuple[Proof, ...]:
    (folder / "tests").mkdir()
    (folder / "tests" / name).write_text(f"import pytest\n{source}\n")
    return proofs(folder / "tests")


@pytest.mark.parametrize(
    ("marks", "module", "runs"),
    [
        ("", "", "test"),
        ("@pytest.mark.slow\n", "", "test"),
        ("@pytest.mark.prove\n", "", "prove"),
        ("", "pytestmark = pytest.mark.prove\n", "prove"),
        ("", "pytestmark = pytest.mark.slow\n", "test"),
        ("", "pytestmark = [pytest.mark.slow, pytest.mark.prove]\n", "prove"),
        (
            '@pytest.mark.parametrize("n", [1, pytest.param(9, marks=pytest.mark.prove)])\n',
            "",
            "test, prove",
        ),
    ],
)
def test_marks_determine_when_a_proof_runs(
    tmp_path: Path, marks: str, module: str, runs: str
) -> None:
    source = f'{module}@pytest.mark.proves("a", "b")\n{marks}def test_x(): ...'
    assert _marked(tmp_path, source) == (Proof("tests/test_x.py::test_x", ("a", "b"), runs),)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('@pytest.mark.proves("a")\ndef helper(): ...', "test_x.py"),
        ('@pytest.mark.proves("a")\ndef test_x(): ...', "helpers.py"),
        ('@pytest.mark.proves("a")\nclass TestX: ...', "test_x.py"),
        ('def test_x():\n    @pytest.mark.proves("a")\n    def test_y(): ...', "test_x.py"),
        ('pytestmark = pytest.mark.proves("a")', "test_x.py"),
        ("@pytest.mark.proves\ndef test_x(): ...", "test_x.py"),
        ("@pytest.mark.proves(NAME)\ndef test_x(): ...", "test_x.py"),
    ],
)
def test_a_marker_outside_of_a_test_function_is_an_error(
    tmp_path: Path, source: str, name: str
) -> None:
    with pytest.raises(BadMarker, match=rf"tests/{name}:\d: the marker proves"):
        _marked(tmp_path, source, name)
