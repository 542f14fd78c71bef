"""Markdown documents rendered by real programs.

MkDocs Material and Sphinx with MyST as sites, pandoc as DOCX and PPTX, Typst as PDF. Needs the extra
`bench`. No program may use the network, so images are removed from the documents and links are made
absolute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urljoin

from lycosa.page.documents.kinds import kind_of
from lycosa.page.documents.parse import parse_document
from lycosa.page.html.markdown import MarkdownMode, page_markdown
from lycosa.page.parse import ParseOptions

_IMAGE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])")
_EMPTY_LINK = re.compile(r"\[\s*\](?:\([^)]*\)|\[[^\]]*\])")
_TARGET = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
_DIALECT = "commonmark+pipe_tables+strikeout"
_MKDOCS = """site_name: A site
theme: {name: material}
plugins: [search]
markdown_extensions:
  - tables
  - attr_list
  - pymdownx.highlight
  - pymdownx.superfences
  - pymdownx.tilde
  - sane_lists
  - toc: {permalink: true}
"""
_SPHINX = (
    "project = 'A site'\nextensions = ['myst_parser']\nhtml_theme = 'furo'\nsmartquotes = False\n"
)

Generator = Callable[[Mapping[str, str], Path], list[bytes]]
"""Render documents by name in a folder; return the pages or files in the same order."""


def without_images(text: str, base: str) -> str:
    """Return a document without images, with absolute links."""
    text = _EMPTY_LINK.sub("", _IMAGE.sub("", text))
    return _TARGET.sub(lambda match: f"]({urljoin(base, match[1])})", text)


def _run(command: Sequence[str], folder: Path) -> None:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr[-2000:]}")


def by_mkdocs(texts: Mapping[str, str], folder: Path) -> list[bytes]:
    """Return the pages of a site of MkDocs Material."""
    (folder / "docs").mkdir()
    (folder / "mkdocs.yml").write_text(_MKDOCS)
    for name, text in texts.items():
        (folder / "docs" / f"{name}.md").write_text(text)
    _run([sys.executable, "-m", "mkdocs", "build", "--quiet"], folder)
    return [(folder / "site" / name / "index.html").read_bytes() for name in texts]


def by_sphinx(texts: Mapping[str, str], folder: Path) -> list[bytes]:
    """Return the pages of a site of Sphinx with MyST and the theme Furo."""
    (folder / "conf.py").write_text(_SPHINX)
    (folder / "index.md").write_text("# A site\n\n```{toctree}\n" + "\n".join(texts) + "\n```\n")
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)
    _run([sys.executable, "-m", "sphinx", "-q", "-b", "html", ".", "out"], folder)
    return [(folder / "out" / f"{name}.html").read_bytes() for name in texts]


def _by_pandoc(form: str) -> Generator:
    def convert(texts: Mapping[str, str], folder: Path) -> list[bytes]:
        import pypandoc

        files = []
        for name, text in texts.items():
            target = folder / f"{name}.{form}"
            pypandoc.convert_text(text, form, format=_DIALECT, outputfile=str(target))
            files.append(target.read_bytes())
        return files

    return convert


def by_typst(texts: Mapping[str, str], folder: Path) -> list[bytes]:
    """Return PDF files of Typst; b"" for documents that it does not compile."""
    import pypandoc
    import typst

    files = []
    for name, text in texts.items():
        source = folder / f"{name}.typ"
        standalone = ["--standalone"]
        source.write_text(
            pypandoc.convert_text(text, "typst", format=_DIALECT, extra_args=standalone)
        )
        try:
            files.append(typst.compile(str(source)))
        except RuntimeError:
            files.append(b"")
    return files


GENERATORS: Mapping[str, Generator] = {
    "MkDocs Material": by_mkdocs,
    "Sphinx": by_sphinx,
    "DOCX": _by_pandoc("docx"),
    "PPTX": _by_pandoc("pptx"),
    "PDF": by_typst,
}


def generated(name: str, texts: Sequence[str]) -> list[bytes]:
    """Return each document as rendered by a program; b"": it failed."""
    with tempfile.TemporaryDirectory() as folder:
        return GENERATORS[name](
            {f"page-{number}": text for number, text in enumerate(texts)}, Path(folder)
        )


def recovered(payload: bytes, url: str) -> str:
    """Return the Markdown of a page or document."""
    kind = kind_of(payload)
    if kind is None:
        return page_markdown(payload, url=url)
    options = ParseOptions(markdown=MarkdownMode.MAIN)
    return parse_document(payload, kind, url=url, options=options).markdown or ""
