"""A hook of MkDocs: documents outside of docs/ become pages, and links to them keep working."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "ARCHITECTURE.md": "explanation/architecture.md",
    "bench/RESULTS.md": "project/results.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "docs/decisions": "decisions/index.md",
}
"""File or folder of the repository -> page of the site."""

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of `OUTSIDE`."""
    for source, page in OUTSIDE.items():
        path = ROOT / source
        content = _index(path) if path.is_dir() else path.read_text(encoding="utf-8")
        # Python-Markdown needs an empty line before a list.
        content = re.sub(r"^(\*\*.+\*\*)\n(?=- )", r"\1\n\n", content, flags=re.M)
        files.append(File.generated(config, page, content=content))
    return files


def _index(folder: Path) -> str:
    """Return a page that lists the decisions of a folder."""
    titles = {
        path.name: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for path in sorted(folder.glob("*.md"))
    }
    rows = [f"- [{title}]({name})" for name, title in titles.items()]
    return "\n".join(["# Decisions", "", *rows, ""])


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at pages. Links to other files of the repository become plain text."""
    uri = page.file.src_uri
    sources = {target: source for source, target in OUTSIDE.items() if source.endswith(".md")}
    folder = (ROOT / sources.get(uri, f"docs/{uri}")).parent

    def repair(match: re.Match[str]) -> str:
        label, target, anchor = match.groups(default="")
        path = os.path.relpath(folder / target, ROOT)
        place = OUTSIDE.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not place:
            return label
        return f"[{label}]({os.path.relpath(place, os.path.dirname(uri) or '.')}{anchor})"

    return _LINK.sub(repair, markdown)
