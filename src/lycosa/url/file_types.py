"""Detects URLs that cannot be indexed: by the URL before fetching, and by the media type after the
headers.

An extension is a convention, so only those are used that pages hardly ever have. Known and accepted
errors:

- a page with such a name (`/photo.jpg` as HTML about the photo) is not fetched. Names of such pages
  in wikis and code browsers are accepted: `File:A.jpg`, `/wiki/Node.js`, `/blob/main/a.png`;
- `/get.php?file=a.zip` and `/a.zip/download` are requested: only the last path segment counts; then
  the headers decide;
- a program that writes pages may be called `.exe`, `.dll` or `.bin`: refused only without a query
  and outside folders for programs (`/cgi-bin/`); a path after a program (`/index.php/a.jpg`)
  belongs to the program;
- `.com`, `.so`, `.au`, `.br`, `.ps` etc. are as common in hostnames as in file names, and are not
  used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from lycosa.url.schemes import path_start

_GROUPS: Final = {
    "archive": "7z ace apk arj bz2 bzip2 cab cpio crx deb ear gz ipa jar lha lz lz4 lzh lzma "
    "nupkg rar rpm sit sitx tar taz tbz tbz2 "
    "tgz tlz txz udeb war whl xapk xpi xz z zip zst",
    "audio": "aac aif aifc aiff ape caf flac m3u m3u8 m4a m4b mid midi mka mp2 mp3 mpga oga ogg "
    "opus pls ra ram snd wav wma xm",
    "data": "accdb blend bsp class db dbf dwg dxf gdb geotiff h5 hdf las laz lib mdb npy npz obj "
    "parquet pdb pickle pkl pyc "
    "pyo rdata shp shx sqlite sqlite3 stl torrent",
    "disk_image": "dmg img iso nrg ova ovf qcow2 toast vdi vhd vhdx vmdk wim",
    "executable": "bin cpl dll dylib exe msi msix msp scr sys",
    "font": "eot fon otf pfa pfb pfm ttc ttf woff woff2",
    "image": "apng avif bmp cr2 cur dng emf eps fits gif heic heif ico jfif jp2 jpe jpeg jpg jxl "
    "nef pbm pcx pgm png pnm ppm psd raw "
    "svg svgz tga tif tiff webp wmf xbm xcf xpm",
    "script": "cjs js map mjs wasm",
    "style": "css less sass scss",
    "video": "3g2 3gp asf avi divx f4v flv m2ts m2v m4s m4v mkv mng mov mp4 mpe mpeg mpg mts ogv "
    "qt rm rmvb swf vob webm wmv",
}
_READ_DOCUMENTS: Final = (
    "doc docm docx dot dotm dotx epub odp ods odt otp ots ott pdf pot potx pps ppsm ppsx ppt pptm "
    "pptx rtf xls xlsb xlsm xlsx xlt xltx"
)
_OTHER_DOCUMENTS: Final = "dvi fb2 key mobi numbers odg pages pub wpd wps"  # no reader for them
_DOCUMENTS: Final = f"{_READ_DOCUMENTS} {_OTHER_DOCUMENTS}"
_REASONS: Final = {
    extension: group for group, names in _GROUPS.items() for extension in names.split()
} | dict.fromkeys(_OTHER_DOCUMENTS.split(), "document")
_REASONS_WITH_DOCUMENTS: Final = _REASONS | dict.fromkeys(_DOCUMENTS.split(), "document")
_LONGEST: Final = max(map(len, _REASONS_WITH_DOCUMENTS))

# Folders with pages about files or programs, which their URLs are named after; folders of programs;
# programs before path info.
_ABOUT = re.compile(
    r"/(?:wiki|w|tag|tags|tagged|topic|topics|package|packages|project|projects|blob|search|q)/",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"/(?:cgi-bin|cgi|cgi-win|scripts|isapi)/|\.(?:php\d?|cgi|pl|aspx?|jspx?|exe|dll|cfm|py)/",
    re.IGNORECASE,
)
_ABOUT_TOO: Final = frozenset({"script", "style", "image", "data"})

FTP_LISTING: Final = "text/ftp-dir-listing"
GOPHER_MENU: Final = "application/gopher-menu"
"""Our own media types for the responses of protocols that have no media types."""

TEXT_TYPES: Final = (
    "text/html",
    "application/xhtml+xml",
    "application/vnd.wap.xhtml+xml",
    "text/plain",
    "text/markdown",
    "text/xml",
    "application/xml",
    "application/*+xml",
    "application/feed+json",
    FTP_LISTING,
    GOPHER_MENU,
)
"""Media types of pages."""

DOCUMENT_TYPES: Final = (
    "application/pdf",
    "application/x-pdf",
    "application/msword",
    "application/rtf",
    "text/rtf",
    "application/epub+zip",
    "application/vnd.ms-excel*",
    "application/vnd.ms-powerpoint*",
    "application/vnd.ms-word*",
    "application/vnd.oasis.opendocument.text*",
    "application/vnd.oasis.opendocument.spreadsheet*",
    "application/vnd.oasis.opendocument.presentation*",
    "application/vnd.openxmlformats-officedocument.*",
)
"""Media types of the documents that `lycosa.page.documents` reads. Images are read too, where a
collection's media types name them.
"""

READ_TYPES: Final = TEXT_TYPES + DOCUMENT_TYPES
"""Media types that `lycosa.page` reads: the default patterns of a collection."""

REQUISITE_GROUPS: Final = frozenset({"image", "style", "script", "font"})
"""Groups of resources that a browser needs to display a page."""

REQUISITE_TYPES: Final = (
    "image/*",
    "font/*",
    "text/css",
    "text/javascript",
    "application/javascript",
    "application/x-javascript",
    "application/ecmascript",
    "application/json",
    "application/manifest+json",
    "application/font-*",
    "application/x-font-*",
    "application/vnd.ms-fontobject",
)
"""Media types of resources that a browser needs to display a page."""

_UNINFORMATIVE_TYPES: Final = frozenset(
    {
        "",
        "application/octet-stream",
        "binary/octet-stream",
        "application/x-unknown",
        "application/unknown",
        "unknown/unknown",
        "*/*",
        "none",
    }
)
_GOPHER_TEXT: Final = frozenset({"", "0", "1", "h"})
_GOPHER_GROUPS: Final = {
    "g": "image",
    "I": "image",
    ":": "image",
    "s": "audio",
    "<": "audio",
    ";": "video",
    "7": "search",
}
_MAIN_TYPES: Final = frozenset({"image", "audio", "video", "font"})
_OTHER_TYPES: Final = {
    "text/css": "style",
    "text/javascript": "script",
    "application/javascript": "script",
    "application/x-javascript": "script",
    "application/ecmascript": "script",
    "application/wasm": "script",
    "application/zip": "archive",
    "application/gzip": "archive",
    "application/x-gzip": "archive",
    "application/x-tar": "archive",
    "application/x-bzip2": "archive",
    "application/x-xz": "archive",
    "application/x-7z-compressed": "archive",
    "application/vnd.rar": "archive",
    "application/pdf": "document",
    "application/msword": "document",
    "application/rtf": "document",
    "application/epub+zip": "document",
    "application/postscript": "document",
}


def unindexable(url: str, *, documents: bool = True) -> str:
    """Return the reason why a normalised URL cannot be indexed: archive, image, audio, ...; "" if
    it may be. Hot path: one call a new URL.

    Args:
        documents: accept PDF, office documents and books; else they are refused as `document`.
    """
    if url[0] == "g" and (named := _by_item_type(url)) is not None:
        return named
    mark = url.find("?", 8)
    end = len(url) if mark < 0 else mark
    slash = url.rfind("/", 8 if url[0] == "h" else path_start(url), end)
    dot = url.rfind(".", slash + 1, end)
    if slash < 0 or dot < 0:
        return ""
    extension = url[dot + 1 : end]
    if len(extension) > _LONGEST:
        extension = extension.partition(";")[0]
    elif ";" in extension:
        extension = extension[: extension.index(";")]
    reason = (_REASONS if documents else _REASONS_WITH_DOCUMENTS).get(extension.lower(), "")
    return reason and _believed(url, slash, end, reason)


def _by_item_type(url: str) -> str | None:
    """Return the reason by the type of a gopher item (RFC 1436 section 3.8, and other types in
    use); None: the name decides.
    """
    kind = url[path_start(url) + 1 :][:1]
    return "" if kind in _GOPHER_TEXT else _GOPHER_GROUPS.get(kind)


def _believed(url: str, slash: int, end: int, reason: str) -> str:
    folder = url[path_start(url) : slash + 1]
    name = url[slash + 1 : end]
    if ":" in name or "%3A" in name or _PROGRAM.search(folder):
        return ""
    if reason == "executable" and end < len(url):
        return ""
    return "" if reason in _ABOUT_TOO and _ABOUT.search(folder) else reason


def unindexable_type(content_type: str, patterns: Sequence[str] = READ_TYPES) -> str:
    """Return the reason why a Content-Type cannot be indexed: the group of its media type, or
    `media_type`; "" if it may be.

    If it is missing or unspecific (application/octet-stream), the bytes decide.

    Args:
        patterns: the media types that the collection accepts, `*` as wildcard: `text/*`,
            `application/pdf`. Lower case.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in _UNINFORMATIVE_TYPES or "/" not in media_type:
        return ""
    if any(fnmatchcase(media_type, pattern) for pattern in patterns or READ_TYPES):
        return ""
    main = media_type.partition("/")[0]
    return main if main in _MAIN_TYPES else _OTHER_TYPES.get(media_type, "media_type")
