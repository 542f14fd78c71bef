"""What is installed: the locks agree with pyproject.toml, and the bill of materials names all that
Lycosa needs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_PINNED = re.compile(r"^([\w.-]+)==([^ ;\\]+)", re.MULTILINE)


def pinned(lock: str) -> dict[str, set[str]]:
    """Name -> the versions that it may be installed in, by Python version."""
    found: dict[str, set[str]] = {}
    for name, version in _PINNED.findall((ROOT / "requirements" / lock).read_text()):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def wanted(*extras: str) -> list[Requirement]:
    texts = list(PROJECT["dependencies"])
    for extra in extras:
        for each in PROJECT["optional-dependencies"][extra]:
            own = re.match(r"lycosa\[(.*)\]", each)
            texts += [str(part) for part in wanted(*own[1].split(","))] if own else [each]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize(
    ("lock", "extras"), [("run.lock", ()), ("dev.lock", ("dev",)), ("bench.lock", ("dev", "bench"))]
)
def test_a_lock_holds_what_is_wanted(lock: str, extras: tuple[str, ...]) -> None:
    """`scripts/lock` renews them. Each line has its hashes, without which `pip install
    --require-hashes` takes none.
    """
    versions = pinned(lock)
    for each in wanted(*extras):
        held = versions.get(canonicalize_name(each.name), set())
        assert held, f"{each.name} is not in {lock}: run scripts/lock"
        assert all(each.specifier.contains(version) for version in held), (
            f"{lock}: {each}: run scripts/lock"
        )
    text = (ROOT / "requirements" / lock).read_text()
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(_PINNED.findall(text)) > 40
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


def test_the_bill_of_materials() -> None:
    said = subprocess.run(
        [sys.executable, ROOT / "scripts" / "sbom"], capture_output=True, text=True, check=True
    ).stdout
    document = json.loads(said)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["name"]: part for part in document["components"]}
    assert {canonicalize_name(each.name) for each in wanted()} <= parts.keys()
    assert "pytest" not in parts
    assert document["metadata"]["component"]["name"] == "lycosa"
    for name, part in parts.items():
        assert part["purl"] == f"pkg:pypi/{name}@{part['version']}"
        assert part["licenses"], name
    refs = {part["bom-ref"] for part in parts.values()} | {
        document["metadata"]["component"]["bom-ref"]
    }
    assert {
        ref for each in document["dependencies"] for ref in (each["ref"], *each["dependsOn"])
    } == refs


PERMISSIVE = re.compile(
    r"0BSD|Apache|BSD|CC0|ISC|MIT|PSF|Python Software "
    r"Foundation|Zlib|dependency licenses",
    re.I,
)
WEAK_COPYLEFT = {"certifi", "publicsuffixlist", "tqdm"}
"""Packages under the Mozilla Public License 2.0, named in NOTICE."""


def test_dependencies_have_licences_that_apache_2_0_may_depend_on() -> None:
    output = subprocess.run(
        [sys.executable, ROOT / "scripts" / "sbom"], capture_output=True, text=True, check=True
    ).stdout
    parts = json.loads(output)["components"]
    assert len(parts) > 40
    for part in parts:
        names = [each.get("expression") or each["license"]["name"] for each in part["licenses"]]
        terms = [term for name in names for term in re.split(r" AND |, |;", name)]
        allowed = part["name"] in WEAK_COPYLEFT and all(
            "MPL" in term or "Mozilla" in term or PERMISSIVE.search(term) for term in terms
        )
        assert allowed or all(PERMISSIVE.search(term) for term in terms), (part["name"], names)
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert all(name in notice for name in WEAK_COPYLEFT)


@pytest.mark.prove
@pytest.mark.skipif(not shutil.which("uv"), reason="needs uv and the package index")
def test_every_supported_platform_has_wheels_of_all_dependencies() -> None:
    table = subprocess.run(
        [sys.executable, ROOT / "scripts" / "check-wheels"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert table.returncode == 0, table.stdout + table.stderr
    assert table.stdout.count(" wheels") == 12


def test_the_notice_names_the_model_that_a_dependency_contains() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert "lid.176.ftz" in notice
    assert "CC BY-SA 3.0" in notice


def test_the_package_states_its_licence() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
