"""Tests of texts with URLs: people see neither passwords nor signatures."""

from __future__ import annotations

import pytest

from dali_proxy.pipeline._secrets import redacted
from pipeline.errors import OperatorError, PipelineError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("can't read 'https://me:pa'ss@host/a.jpg?Sig=01': 403", "can't read 'https://***@host/a.jpg?***': 403"),
        ("zip://a.jpg::https://me:pass@host/b?c=d", "zip://a.jpg::https://***@host/b?***"),
        ("['http://a/b?x=1', 'http://c?y=2']", "['http://a/b?***', 'http://c?***']"),
        ('(URL("https://host/a?sv=1&sig=\'AB%2F&"), 3)', '(URL("https://host/a?***"), 3)'),
        ("http://[::1?token=1", "http://[::1?***"),
        ("https://host/a?token\nnext line", "https://host/a?***\nnext line"),
        ("did you mean s3://bucket/a? s3://bucket/file?.jpg", "did you mean s3://bucket/a? s3://bucket/file?.jpg"),
        ("hf://datasets/user/name@main/a.jpg and me@host?", "hf://datasets/user/name@main/a.jpg and me@host?"),
    ],
)
def test_user_information_and_queries_are_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert str(PipelineError(text)) == str(OperatorError(text)) == shown
