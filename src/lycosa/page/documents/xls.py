"""XLS (BIFF 5 and 8) and XLSB by calamine, a reader in Rust."""

from __future__ import annotations

import datetime
import io

import python_calamine

from lycosa.page.documents.sink import Broken, Encrypted, Sink


def read_xls(payload: bytes, sink: Sink) -> None:
    """Names of sheets, rows as lines.

    Raises:
        Encrypted: it asks for a password.
        Broken: calamine does not open it.
    """
    try:
        book = python_calamine.load_workbook(io.BytesIO(payload))
    except python_calamine.PasswordError:
        raise Encrypted from None
    except (python_calamine.CalamineError, OSError) as error:
        raise Broken(str(error)) from None
    with book:
        for number, name in enumerate(book.sheet_names):
            sink.line(name, heading=True)
            for row in book.get_sheet_by_index(number).iter_rows():
                sink.line(" ".join([text for text in map(_written, row) if text]))


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.timedelta):
        return ""
    return str(value)
