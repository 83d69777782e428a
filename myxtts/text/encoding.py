"""The bytes of text files that people write: UTF-8, or UTF-16 as some Windows programs save."""

from __future__ import annotations

import codecs

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def as_utf8(data: bytes, cut: bool = False) -> bytes:
    """The same text in UTF-8, without a byte order mark.

    Args:
        data: UTF-8 with or without a byte order mark, which is not checked, or UTF-16 with one.
        cut: the end is missing, and half a character there is left out.

    Raises:
        UnicodeDecodeError: it is UTF-16 and damaged; `start` counts from the beginning of `data`.
    """
    for mark, encoding in _UTF16.items():
        if data.startswith(mark):
            decoder = codecs.getincrementaldecoder(encoding)()
            try:
                return decoder.decode(data[len(mark) :], final=not cut).encode()
            except UnicodeDecodeError as error:
                start, end = error.start + len(mark), error.end + len(mark)
                raise UnicodeDecodeError(encoding, data, start, end, error.reason) from None
    return data.removeprefix(codecs.BOM_UTF8)
