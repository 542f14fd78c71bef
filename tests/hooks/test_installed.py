"""Test the installed example plug-in, and the core without features."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lycosa
from tests.crawl.conftest import AS_ROOT, ServeWeb, page

_ROOT = Path(__file__).resolve().parents[2]
_FEATURES = (
    ("captures",),
    ("chunks",),
    ("export",),
    ("fields",),
    ("find",),
    ("hunt",),
    ("mcp",),
    ("site",),
    ("uptime",),
    ("watch",),
    ("find", "watch", "matching"),  # `find` and `watch` share `matching`
    ("uptime", "watch", "notify"),
)
_LIMIT_S = 120
_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")


def _run(folder: Path, *arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with `path` before all other packages."""
    return subprocess.run(
        [sys.executable, "-m", "lycosa", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{_ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )


def _crawl(folder: Path, url: str, path: Path) -> subprocess.CompletedProcess[str]:
    quick = [word for setting in AS_ROOT for word in ("--set", setting)]
    return _run(folder, *quick, "crawl", url, "--delay", "0s", path=path)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder into which pip installed the example plug-in."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(_ROOT / "examples" / "plugin", folder / "source")
    subprocess.run(
        [*_PIP, "--target", str(folder / "site"), str(source)],
        check=True,
        timeout=_LIMIT_S,
    )
    return folder / "site"


def test_the_example_adds_a_column_filters_urls_and_adds_a_command(
    serve: ServeWeb, tmp_path: Path, example: Path
) -> None:
    long = " ".join(f"word{number}" for number in range(700))
    web = serve(
        {
            "/index.html": page("long.html", "long.html/print", text="Home"),
            "/long.html": page(text=long),
        }
    )
    crawled = _crawl(tmp_path, web.url(), example)
    assert crawled.returncode == 0, crawled.stderr
    assert "/long.html/print" not in web.requested_paths()
    answer = _run(tmp_path, "sql", "SELECT url, reading_minutes FROM pages", "--csv", path=example)
    assert f"{web.url('/long.html')},4" in answer.stdout.splitlines(), answer.stderr
    listed = _run(tmp_path, "longest", path=example)
    assert listed.stdout.splitlines()[0] == f"   4 min  {web.url('/long.html')}", listed.stderr
    elsewhere = _run(tmp_path, "-w", "nowhere", "longest", path=example)
    assert (elsewhere.returncode, "nowhere is not a workspace" in elsewhere.stderr) == (1, True)
    assert "longest" in _run(tmp_path, "--help", path=example).stdout
    explained = _run(tmp_path, "explain", web.url("/long.html/print"), path=example)
    assert "a plug-in refuses it" in explained.stdout, explained.stderr


def test_a_plugin_cannot_replace_a_command(tmp_path: Path, example: Path) -> None:
    plugin = tmp_path / "site"
    shutil.copytree(example, plugin)
    module = plugin / "lycosa_reading_time" / "__init__.py"
    content = module.read_text()
    module.write_text(content.replace('command("longest")', 'command("search")'))
    assert module.read_text() != content
    for arguments in (("--help",), ("search", "--help")):
        answer = _run(tmp_path, *arguments, path=plugin)
        assert answer.returncode == 0
        assert answer.stderr.startswith(
            "lycosa: the command 'search' of the plug-in module lycosa_"
        )
        assert "Plug-ins" not in answer.stdout


def test_a_plugin_that_cannot_be_loaded_is_named(tmp_path: Path, example: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(example, broken)
    (broken / "lycosa_reading_time" / "__init__.py").write_text("import no_such_package\n")
    answer = _run(tmp_path, "longest", path=broken)
    assert answer.returncode == 2
    assert "lycosa: plug-in reading-time (lycosa_reading_time) cannot be loaded" in answer.stderr
    assert "no_such_package" in answer.stderr


def test_two_packages_may_name_their_plugins_alike(tmp_path: Path, example: Path) -> None:
    both = tmp_path / "site"
    shutil.copytree(example, both)
    other = both / "other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (other / "entry_points.txt").write_text("[lycosa]\nreading-time = other\n")
    command = 'app.command("other")(lambda: print("of another"))'
    (both / "other.py").write_text(
        f"from lycosa.hooks import hook\n\n@hook\ndef add_commands(app):\n    {command}\n"
    )
    listed = _run(tmp_path, "--help", path=both)
    assert "longest" in listed.stdout, listed.stderr
    answer = _run(tmp_path, "other", path=both)
    assert answer.stdout == "of another\n", answer.stderr


@pytest.mark.parametrize("features", _FEATURES, ids=" ".join)
def test_the_core_works_without_each_feature(
    features: tuple[str, ...], serve: ServeWeb, tmp_path: Path
) -> None:
    web = serve({"/index.html": page(text="The wolf spider hunts at night")})
    package = Path(lycosa.__file__).parent
    shutil.copytree(
        package,
        tmp_path / "core" / "lycosa",
        ignore=lambda folder, _: features if Path(folder) == package else (),
    )
    crawled = _crawl(tmp_path, web.url(), tmp_path / "core")
    assert crawled.returncode == 0, crawled.stderr
    result = _run(tmp_path, "search", "wolf spider", path=tmp_path / "core")
    assert web.url() in result.stdout, result.stderr
