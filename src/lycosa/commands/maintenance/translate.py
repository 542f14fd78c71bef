"""Add, learn, list and remove translation tables of a workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lycosa.core.errors import UsageError
from lycosa.search.crosslingual.translated import TranslatedQuery, Translator
from lycosa.search.query.language import query_language
from lycosa.search.query.query import Clause, ParsedQuery
from lycosa.store.storage.staging import build_folder
from lycosa.store.storage.storage import Storage
from lycosa.store.workspace import Workspace
from lycosa.text.analyze import analyzer_for
from lycosa.translation.dictionaries import DictionaryEntry, as_table, columns, dictd, wiktionary
from lycosa.translation.parallel_texts import Pair, tmx, two_columns, two_files
from lycosa.translation.table import TableInfo, analyzers, write_table
from lycosa.translation.terms import Vocabulary
from lycosa.translation.word_alignment import LearnedTranslations, learn, shortest_first
from lycosa.translation.workspace_tables import FOLDER, TABLE, OpenTables, open_tables

DICTIONARY, LEARNED = "dictionary", "learned"
_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,63}\Z")
_LANGUAGE = re.compile(r"^[a-z]{2,3}\Z")
_INVALID_SHARE = 0.001  # of the characters of a dictionary that may be invalid UTF-8
_LOOKED_AT = 100  # lines that distinguish a Wiktionary list from columns
_WORDS = 4  # of a TMX unit that is a term and not a sentence
# ISO 639-3 codes in the file names of dictd, and CLDR's code of Chinese -> the index's codes
_CODES = {
    "ara": "ar", "bul": "bg", "ces": "cs", "cmn": "zh", "dan": "da", "deu": "de", "ell": "el",
    "eng": "en", "fas": "fa", "fin": "fi", "fra": "fr", "gle": "ga", "hin": "hi", "hrv": "hr",
    "hun": "hu", "ind": "id", "ita": "it", "jpn": "ja", "kor": "ko", "lit": "lt", "msa": "ms",
    "nld": "nl", "nor": "no", "pol": "pl", "por": "pt", "rus": "ru", "spa": "es", "srp": "sr",
    "swe": "sv", "tur": "tr", "vie": "vi", "zho": "zh",
}  # fmt: skip
_PAIR = re.compile(r"(?:^|[-_.])([a-z]{2,3})[-_]([a-z]{2,3})(?=[-_.]|$)")


def languages_of(path: Path, source: str, target: str) -> tuple[str, str]:
    """Return the source and target language of a file.

    Arguments that are "" are read from the file name, such as `freedict-eng-deu` or `en-cmn.txt`.

    Raises:
        UsageError: the name has none, or both are the same.
    """
    match = _PAIR.search(path.name.lower())
    named = match.groups() if match else ("", "")
    pair = tuple(
        _CODES.get(code, code) for code in (source.lower() or named[0], target.lower() or named[1])
    )
    for code in pair:
        if not _LANGUAGE.match(code):
            raise UsageError(
                f"the languages of {path.name} are unknown: specify them, for "
                "example --from en --to de"
            )
    if pair[0] == pair[1]:
        raise UsageError(f"{path.name}: source and target language are both {pair[0]}")
    return pair[0], pair[1]


def add_dictionary(
    root: str, path: Path, source: str = "", target: str = "", name: str = ""
) -> TableInfo:
    """Add a dictionary: dictd files, a list of Wiktionary, TSV, or TMX.

    Of a TMX file only the short units are used.

    Raises:
        UsageError: it cannot be read, has no entries for these languages, or there is a table with
        that name.
    """
    storage = Workspace.open(root).storage
    source, target = languages_of(path, source, target)
    made = as_table(_entries(path, source, target), source, target)
    provenance = f"{path.name}: {made.sentences:,} translations"
    return _put(
        storage, name or _named(path, source, target), DICTIONARY, source, target, made, provenance
    )


def learn_table(
    root: str, paths: Sequence[Path], source: str = "", target: str = "", name: str = ""
) -> TableInfo:
    """Learn a table from sentences and their translations.

    `paths`: TSV files with two columns, TMX files, or two files with corresponding lines.

    Raises:
        UsageError: a file cannot be read, nothing can be learned, or there is a table with that
        name.
    """
    storage = Workspace.open(root).storage
    if not paths:
        raise UsageError("no file given: specify at least one file to learn from")
    source, target = languages_of(paths[0], source, target)
    made = learn(
        shortest_first(_pairs(paths, source, target)),
        Vocabulary(analyzer_for(source)),
        Vocabulary(analyzer_for(target)),
    )
    provenance = f"{', '.join(path.name for path in paths)}: {made.sentences:,} sentences"
    name = name or f"learned-{source}-{target}"
    return _put(storage, name, LEARNED, source, target, made, provenance)


def tables_of(root: str) -> OpenTables:
    """Open the tables of a workspace. Raises WorkspaceError if there is none."""
    return open_tables(Workspace.open(root).storage)


def remove_table(root: str, name: str) -> None:
    """Remove an added or learned table.

    Raises UsageError if there is no such table; those learned from the crawl cannot be removed.
    """
    storage = Workspace.open(root).storage
    names = storage.names(FOLDER)
    if name not in names:
        codes = ", ".join(names) or "none"
        raise UsageError(
            f"there is no added or learned table {name!r} (available: {codes}); `lycosa rank` "
            "maintains the tables learned from the crawl"
        )
    storage.folders.remove(f"{FOLDER}/{name}")


def look_up(
    root: str, text: str, source: str = "", targets: Sequence[str] = ()
) -> list[TranslatedQuery]:
    """Return the translations of a text.

    `targets`: their languages; empty: all with a table. `source`: the language of the text; "": it
    is identified.
    """
    opened = tables_of(root)
    parsed = ParsedQuery(tuple(Clause(word) for word in text.split()))
    codes = sorted({code for info in opened.infos for code in (info.source, info.target)})
    source = source or query_language(parsed, codes, opened.sources)
    translator = Translator(opened.sources, parsed, source)
    languages = targets or [
        code for code in codes if code != source and opened.sources.covers(source, code)
    ]
    return [query for query in map(translator.into, languages) if query.terms]


def _entries(path: Path, source: str, target: str) -> Iterator[DictionaryEntry]:
    if path.suffix.lower() == ".tmx":
        short = (
            pair
            for pair in tmx(path, source, target)
            if max(len(side.split()) for side in pair) <= _WORDS
        )
        return (DictionaryEntry(one, other, 1.0) for one, other in short)
    if path.suffix in (".index", ".dz", ".dict") or not path.is_file():
        return dictd(path)
    lines = _lines(path)
    beginning = lines[:_LOOKED_AT]
    return (
        wiktionary(lines)
        if sum(" :: " in line or line.endswith(" ::") for line in beginning) > len(beginning) / 2
        else columns(lines)
    )


def _pairs(paths: Sequence[Path], source: str, target: str) -> Iterator[Pair]:
    plain = [path for path in paths if path.suffix.lower() not in (".tsv", ".tmx")]
    if len(plain) == 2 and len(paths) == 2:
        try:
            yield from two_files(plain[0], plain[1])
        except OSError as error:
            raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from None
        return
    for path in paths:
        if path.suffix.lower() == ".tmx":
            yield from tmx(path, source, target)
        else:
            yield from two_columns(_lines(path))


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if "\0" in text or text.count("\ufffd") > len(text) * _INVALID_SHARE:
        raise UsageError(
            f"{path} is not a text file in UTF-8: convert it, for example with `iconv -t utf-8`"
        )
    return text.splitlines()


def _named(path: Path, source: str, target: str) -> str:
    stem = re.sub(r"[^a-z0-9._-]+", "-", path.name.lower())
    for ending in (".dz", ".dict", ".index", ".txt", ".tsv", ".tmx"):
        stem = stem.removesuffix(ending)
    return stem if _NAME.match(stem) else f"dictionary-{source}-{target}"


def _put(
    storage: Storage,
    name: str,
    kind: str,
    source: str,
    target: str,
    made: LearnedTranslations,
    provenance: str,
) -> TableInfo:
    if not _NAME.match(name):
        raise UsageError(
            f"{name!r} is not a valid table name: use lower-case letters, digits, "
            "dots, hyphens and underscores"
        )
    if not made.pairs:
        raise UsageError(f"{provenance}: no translations between {source} and {target}")
    with build_folder(storage, FOLDER) as build:
        info = TableInfo(
            name, kind, source, target, len(made.pairs), analyzers(source, target), provenance
        )
        write_table(build / TABLE, info, made.pairs, made.source_surfaces, made.target_surfaces)
        if not storage.folders.publish(str(build), f"{FOLDER}/{name}"):
            raise UsageError(
                f"table {name} already exists: remove it with `lycosa translate "
                f"remove {name}`, or choose another --name"
            )
    return info
