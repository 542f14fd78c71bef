"""Lay out Apache Nutch in TARGET as its binary distribution does, without the indexers.

    python install.py TARGET

Maven Central has Nutch's classes and its dependencies, but not its plug-ins, scripts and settings.
They are taken from a clone of its repository at a pinned commit; the plug-ins are compiled.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

CLONE = Path.home() / ".cache" / "lycosa-peers" / "sources" / "nutch"
TAG = "release-1.22"
COMMIT = "a4c9cc47285975d5ab08674425d2ce44a8556bc9"
ABSENT = f"""commit {COMMIT} is not in {CLONE}.
Nutch's plug-ins are not on Maven Central, only in its repository. Clone it first:
git clone --branch {TAG} --depth 1 https://github.com/apache/nutch {CLONE}"""

# The default `plugin.includes` without `indexer-solr`, which needs a server.
PLUGINS = (
    *("protocol-http", "urlfilter-regex", "parse-html", "parse-tika", "index-basic"),
    *("index-anchor", "scoring-opic", "urlnormalizer-pass", "urlnormalizer-regex"),
    "urlnormalizer-basic",
    # required by them
    *("nutch-extensionpoints", "lib-http", "lib-regex-filter", "lib-nekohtml"),
)


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


def extract(folder: Path) -> None:
    """Extract the sources from the clone; a commit is a digest of its files."""
    folder.mkdir(parents=True)
    archive = folder / "sources.tar"
    try:
        run("git", "-C", CLONE, "archive", "-o", archive, COMMIT, "conf", "src/bin", "src/plugin")
    except subprocess.CalledProcessError:
        raise SystemExit(ABSENT) from None
    shutil.unpack_archive(archive, folder, filter="data")


def compile_plugins(sources: Path, packages: Path, classes: Path) -> None:
    files = [path for name in PLUGINS for path in (sources / name / "src/java").rglob("*.java")]
    path = f"{packages}/lib/*:{packages}/plugins/*"
    run("javac", "-nowarn", "--release", 11, "-d", classes, "-cp", path, *files)


def pack(java: Path, classes: Path, jar: Path) -> None:
    """Write the classes of a folder of sources into a jar."""
    with zipfile.ZipFile(jar, "w") as archive:
        for source in java.rglob("*.java"):
            package = source.parent.relative_to(java)
            for path in (classes / package).glob("*.class"):
                if path.stem.partition("$")[0] == source.stem:
                    archive.write(path, package / path.name)


def install(source: Path, classes: Path, packages: Path, folder: Path) -> None:
    """Install a plug-in into its folder: its manifest, its classes and the packages it names."""
    folder.mkdir(parents=True)
    shutil.copy(source / "plugin.xml", folder)
    for library in ET.parse(source / "plugin.xml").iterfind("runtime/library"):
        name = library.attrib["name"]
        if name == f"{folder.name}.jar":
            pack(source / "src" / "java", classes, folder / name)
        else:
            shutil.copy(packages / name, folder)


def main(target: Path) -> None:
    sources = target / "sources"
    extract(sources)
    for name in ("lib", "plugins"):
        options = ["-P", name, f"-DoutputDirectory={target / 'packages' / name}"]
        run("mvn", "-q", "-B", *options, "dependency:copy-dependencies")
    (target / "lib").symlink_to("packages/lib")
    plugins, classes = sources / "src" / "plugin", sources / "classes"
    compile_plugins(plugins, target / "packages", classes)
    for name in PLUGINS:
        install(plugins / name, classes, target / "packages/plugins", target / "plugins" / name)
    (sources / "src" / "bin").rename(target / "bin")
    for path in (sources / "conf").iterdir():
        path.rename(path.with_name(path.name.removesuffix(".template")))
    (sources / "conf").rename(target / "conf")
    shutil.rmtree(sources)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
