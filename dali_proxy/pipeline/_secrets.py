"""Removes passwords, tokens and signatures of URLs from texts that people see."""

from __future__ import annotations

import re

_HIDDEN = "***"
# The user and the password, and the query up to punctuation before a space. Both may contain quotes.
_URL = re.compile(
    r"(?P<scheme>://)(?P<user>[^/?#\s]*@)?(?P<path>(?:(?!://)[^\s?'\"<>])*)"
    r"(?P<query>\?(?=[\w%&=])\S*?(?=[\]['\"<>(){},;:.!]*(?:\\n|\s|$)))?"
)


def redacted(text: str) -> str:
    """Return a text without the user information and the queries of its URLs.

    Example:
        >>> redacted("can't read 'https://me:password@host/a.jpg?X-Amz-Signature=0123': 403")
        "can't read 'https://***@host/a.jpg?***': 403"
    """
    return _URL.sub(_hide, text) if "://" in text else text


def _hide(match: re.Match[str]) -> str:
    user = f"{_HIDDEN}@" if match["user"] else ""
    query = f"?{_HIDDEN}" if match["query"] else ""
    return f"{match['scheme']}{user}{match['path']}{query}"
