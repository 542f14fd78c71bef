"""Output of a process. All of it passes `EscapingStream`, in commands and child processes, so that
text from the web cannot control the terminal.
"""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Any, TextIO, cast

STDOUT, STDERR = 1, 2
_STYLES = {
    "bold": ("\ufdd0", "1"),
    "link": ("\ufdd1", "32"),
    "match": ("\ufdd2", "1;33"),
}
_END = "\ufdd3"
_CODES = {mark: f"\x1b[{code}m" for mark, code in _STYLES.values()} | {_END: "\x1b[0m"}
_MARKS = dict.fromkeys(map(ord, _CODES))
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069\ufdd0-\ufdd3]"
)
"""Control characters except tab and line feed, bidirectional controls, and the style marks."""


class EscapingStream:
    """A stream that escapes control characters (`\\x1b`), and colours `styled` text.

    Messages on standard error are dropped when their reader has ended (`lycosa run 2>&1 | head`).
    """

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._colours = stream.isatty() and not is_plain

    def write(self, text: str) -> int:
        try:
            self.raw.write(_CONTROLS.sub(self._written, text))
        except BrokenPipeError:
            if self.raw.fileno() != STDERR:
                raise
            discard(STDERR)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def _written(self, result: re.Match[str]) -> str:
        character = result[0]
        if character in _CODES:
            return _CODES[character] if self._colours else ""
        return f"\\x{ord(character):02x}" if character < "\u0100" else f"\\u{ord(character):04x}"


def escape_output() -> None:
    """Escape all output of this process. Closed streams are replaced by the null device."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # not every terminal can show every title
        sys.stdout.reconfigure(errors="replace")
    if not isinstance(sys.stdout, EscapingStream):
        sys.stdout = cast("TextIO", EscapingStream(sys.stdout))
    if not isinstance(sys.stderr, EscapingStream):
        sys.stderr = cast("TextIO", EscapingStream(sys.stderr))


def discard(descriptor: int) -> None:
    """Send the further output of a standard stream to the null device."""
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), descriptor)


def _open_closed_streams() -> None:
    """Open closed standard streams, whose numbers the next opened files would get otherwise."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def raw(stream: TextIO) -> TextIO:
    """Return the stream without escaping, for data and cursor control."""
    return stream.raw if isinstance(stream, EscapingStream) else stream


def styled(style: str, text: str) -> str:
    """Return text in a style (bold, link or match) on a terminal, plain elsewhere."""
    return f"{_STYLES[style][0]}{text.translate(_MARKS)}{_END}"
