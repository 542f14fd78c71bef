"""Dependencies: lock files, bill of materials (SBOM), licences and wheels."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_PINNED = re.compile(r"^([\w.-]+)==([^ ;\\]+)", re.MULTILINE)


def requirements(*extras: str) -> list[Requirement]:
    """Return the requirements of Lycosa with these extras."""
    texts = list(PROJECT["dependencies"])
    for extra in extras:
        for each in PROJECT["optional-dependencies"][extra]:
            own = re.match(r"lycosa\[(.*)\]", each)
            texts += [str(part) for part in requirements(*own[1].split(","))] if own else [each]
    return [Requirement(text) for text in texts]


@pytest.fixture(scope="module")
def sbom() -> Any:
    command = [sys.executable, str(ROOT / "scripts" / "sbom")]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


@pytest.mark.parametrize(
    ("lock", "extras"), [("run.lock", ()), ("dev.lock", ("dev",)), ("bench.lock", ("dev", "bench"))]
)
def test_lock_files_contain_all_requirements_with_hashes(
    lock: str, extras: tuple[str, ...]
) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    pins = _PINNED.findall(text)
    versions: dict[str, set[str]] = {}  # several if they depend on the Python version
    for name, version in pins:
        versions.setdefault(canonicalize_name(name), set()).add(version)
    for each in requirements(*extras):
        locked = versions.get(canonicalize_name(each.name), set())
        assert locked, f"{each.name} is not in {lock}: run scripts/lock"
        assert all(each.specifier.contains(version) for version in locked), (
            f"{lock}: {each}: run scripts/lock"
        )
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pins) > 40
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


def test_the_bill_of_materials_has_all_dependencies(sbom: Any) -> None:
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    components = {each["name"]: each for each in sbom["components"]}
    assert {canonicalize_name(each.name) for each in requirements()} <= components.keys()
    assert "pytest" not in components
    assert sbom["metadata"]["component"]["name"] == "lycosa"
    for name, each in components.items():
        assert each["purl"] == f"pkg:pypi/{name}@{each['version']}"
        assert each["licenses"], name
    refs = {each["bom-ref"] for each in (*components.values(), sbom["metadata"]["component"])}
    assert refs == {
        ref for each in sbom["dependencies"] for ref in (each["ref"], *each["dependsOn"])
    }


PERMISSIVE = re.compile(
    r"0BSD|Apache|BSD|CC0|ISC|MIT|PSF|Python Software Foundation|Zlib|dependency licenses", re.I
)
WEAK_COPYLEFT = {"certifi", "publicsuffixlist", "tqdm"}
"""Packages under the Mozilla Public License 2.0, named in NOTICE."""


def test_licences_of_dependencies_are_compatible_with_apache_2_0(sbom: Any) -> None:
    assert len(sbom["components"]) > 40
    for component in sbom["components"]:
        licences = [
            each.get("expression") or each["license"]["name"] for each in component["licenses"]
        ]
        terms = [term for licence in licences for term in re.split(r" AND |, |;", licence)]
        allowed = component["name"] in WEAK_COPYLEFT and all(
            "MPL" in term or "Mozilla" in term or PERMISSIVE.search(term) for term in terms
        )
        assert allowed or all(PERMISSIVE.search(term) for term in terms), (
            component["name"],
            licences,
        )
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
