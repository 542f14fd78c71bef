"""Strategies for URLs and hrefs, and references for percent-encoding."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from hypothesis import strategies as st

# Characters that the parser treats specially, escapes, non-ASCII characters, and hostile input.
_PIECES = (
    *"/?#:@.;=&%\\ \t\n\r\0'\"<>[]{}|^`~*()$+,-_!",
    "..",
    "/.",
    "./",
    "../",
    "//",
    "%2e",
    "%2E",
    "%7e",
    "%41",
    "%4a",
    "%2f",
    "%zz",
    "%",
    "%4",
    "%25",
    "%e4%b8",
    "%C3%BC",
    "%20",
    "a",
    "b",
    "2",
    "4",
    "E",
    "index.html",
    "A",
    "ü",
    "例え",
    "\ud800",
    "\udc00",
    "😀",
    "\ufeff",
    "\u3000",
    "\x7f",
    "\x85",
    "http:",
    "https:",
    "http://",
    "https://",
    "//h.example",
    "HTTP://H.Example:80",
    "https://u:p@h.example:443/",
    "ht\ttp://",
    "javascript:",
    "mailto:x@y",
    "data:text/plain,",
    "ftp://f/",
    "file:///",
    "foo:",
    "http://127.1/",
    "http://[::1]:8080/",
    "http://[::1%25e]/",
)
hrefs = st.lists(st.sampled_from(_PIECES), max_size=8).map("".join) | st.text(
    st.characters(codec=None, exclude_categories=()), max_size=20
)

hosts = st.sampled_from(
    (
        "example.org",
        "EXAMPLE.org.",
        "xn--fa-hia.de",
        "faß.de",
        "10.0.0.1",
        "0x7f.1",
        "[::1]",
        "[2001:DB8::0:1]",
        "localhost",
        "a..b",
        "h",
        "a;b",
        "..",
    )
) | st.lists(
    st.sampled_from((*"-.a1ßςİſﬁⅧ。%\u200d\u00ad\u0301א日Ａ", "xn--", "%C3%9F", "0x", "zca"))
    | st.characters(),
    max_size=5,
).map("".join)
_path_pieces = st.sampled_from(
    (
        *"/aB9-._~!$&'()*+,;=:@|[]^{}<>\"% \\",
        "%41",
        "%7e",
        "%2e",
        "%2F",
        "%25",
        "%zz",
        "%a",
        "é",
        "中",
        "..",
        "/../",
        "//",
        "/",
    )
)
absolute = st.builds(
    lambda scheme, user, host, port, path, query, fragment: (
        f"{scheme}://{user}{host}{port}/{path}{query}{fragment}"
    ),
    st.sampled_from(("http", "https", "HTTP", "hTTps")),
    st.sampled_from(("", "", "", "u@", "u:p@", ":@", "a@b@")),
    hosts,
    st.sampled_from(("", "", ":", ":80", ":443", ":8080", ":00080")),
    st.lists(_path_pieces, max_size=8).map("".join),
    st.just("") | st.lists(_path_pieces, max_size=6).map(lambda pieces: "?" + "".join(pieces)),
    st.just("") | st.lists(_path_pieces, max_size=3).map(lambda pieces: "#" + "".join(pieces)),
)


def decoded(text: str) -> bytes:
    """Return a component with all escapes decoded."""
    return unquote_to_bytes(text)


def normalised_escapes(text: str) -> str:
    """Normalise percent-encoding by a slow reference implementation.

    Decodes the escapes of unreserved characters and writes all others in upper case.
    """
    output, position = "", 0
    while position < len(text):
        escape = re.match(r"%([0-9A-Fa-f]{2})", text[position:])
        if escape is None:
            output, position = output + text[position], position + 1
            continue
        character = chr(int(escape[1], 16))
        unreserved = character.isascii() and (character.isalnum() or character in "-._~")
        # Decoding must not complete an escape, so neither `%` nor `%` and a digit may precede it.
        broken = re.search(r"%[0-9A-Fa-f]?$", text[:position]) is not None
        output += character if unreserved and not broken else escape[0].upper()
        position += 3
    return output
