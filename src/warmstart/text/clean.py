"""Text that every database can hold."""

from __future__ import annotations


def clean(text: str) -> str:
    """The text without NUL and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
