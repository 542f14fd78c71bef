"""ICU transliterators from the C library that icu4py bundles."""

from __future__ import annotations

import ctypes
from pathlib import Path

import icu4py
import pytest

_CAPACITY = 4_000  # UTF-16 units, for the text and its result


class Transliterator:
    """Transliterator by its ICU id. Skips the test without ICU library."""

    def __init__(self, identifier: str) -> None:
        folder = Path(icu4py.__file__).parent.parent / "icu4py.libs"
        major = icu4py.icu_version.split(".")[0]
        try:
            for name in ("libicudata", "libicuuc", "libicui18n"):
                self._library = ctypes.CDLL(
                    str(next(folder.glob(f"{name}-*"))), mode=ctypes.RTLD_GLOBAL
                )
            opened = getattr(self._library, f"utrans_openU_{major}")
            self._transform = getattr(self._library, f"utrans_transUChars_{major}")
        except (StopIteration, OSError, AttributeError) as problem:
            pytest.skip(f"the icu4py wheel contains no ICU library: {problem}")
        opened.restype = ctypes.c_void_p
        status = ctypes.c_int(0)
        units = identifier.encode("utf-16-le")
        self._handle = ctypes.c_void_p(
            opened(units, len(identifier), 0, None, 0, None, ctypes.byref(status))
        )
        if status.value > 0:
            raise ValueError(f"ICU has no transliterator {identifier} (error {status.value})")

    def __call__(self, text: str) -> str:
        units = text.encode("utf-16-le")
        buffer = ctypes.create_string_buffer(units, 2 * _CAPACITY)
        length = ctypes.c_int32(len(units) // 2)
        limit = ctypes.c_int32(length.value)
        status = ctypes.c_int(0)
        self._transform(
            self._handle,
            buffer,
            ctypes.byref(length),
            _CAPACITY,
            0,
            ctypes.byref(limit),
            ctypes.byref(status),
        )
        if status.value > 0:
            raise ValueError(f"ICU error {status.value}")
        return buffer.raw[: 2 * length.value].decode("utf-16-le")
