"""Docstrings, comments, messages and documents are plain English, and names of tests begin with their subject."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("pipeline", "dali_proxy", "docs", "examples", "benchmarks", "tests")
#: Records of measurements, which stay as they were written, and this file, which quotes the patterns.
LEFT_OUT = ("benchmarks/results/", "tests/test_english.py")

#: Expressions that a reader stumbles over, with advice. Each has hardly any correct use in this repository.
PATTERNS = {
    r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|fewer\b|less\b)": "isn't a, aren't",
    r"\b(?:of|one of) (?:ours|theirs|yours)\b": "our, their, your",
    r"(?<!place )(?<!instead )\bof [\w-]+'s(?=[.,;:)])": "name the object: of one of NVIDIA's modules",
    r"\bof (?:its|their|his) own\b": "separate, own",
    r"\bwho (?:wants?|waits?|asks?|needs?)\b": "name the component: consumer, client, caller",
    r"\bwhoever\b": "every client that",
    r"\b(?:nobody|somebody|anybody)\b": "name the component: consumer, client, caller",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bshortly\b": "soon, briefly",
    r"\btold\b": "said, notified, reported",
    r"\btells? (?:if|whether|what|how|who)\b": "return whether, report",
    r"\bkin\b": "related",
    r"\b(?:by|of) (?:itself|themselves)\b": "automatically, alone",
    r"\bsuch as (?:are|is)\b": "that are",
    r"(?<![-/])(?<!\bof )\bpictures?\b(?!:)": "image; plot",
    r"\bhand(?:s|ed|ing)? (?:over|out|on)\b": "pass, send, deliver",
    r"\b(?:go|goes|going|went|gone) on\b": "continue, resume",
    r"\btak(?:es?|en|ing) note\b": "record",
    r"\b(?:is|are|was|were) there(?! (?:a|an|any|no)\b)(?=[.,;:)]|$)": "exists",
    r"\bas is right\b": "as required",
    r"\b(?:do|does|did) (?:no )?harm\b": "affect",
    r"\bfor good\b": "permanently",
    r"\bwhat (?:is|was) (?:asked|wanted|taken|given|made)\b": "the requested, the result",
    r"\blet(?:s|ting)? go of\b": "release",
    r"\ba training(?=[.,;:)]| (?:that|on|with|at|of|in|may|beside|is|has|should|loses)\b)": "training, a training run",
    r"\bbeside (?:a|an|the) (?:training|server|loader)\b": "while ... runs; compared with",
    r"\bexcludes? each other\b": "are mutually exclusive",
    r"\bby hand\b": "directly, yourself",
    r"\bserves? on\b": "continue",
    r"\bdearest\b": "most expensive",
    r"\bleft half-?way\b": "stopped early",
    r"\bmost (?:bytes|samples|batches|descriptors|files|memory) (?:of|that|in|per)\b": "maximum number of",
    r"\bwait(?:s|ed|ing)? for room\b": "free space",
    r"\bin another order\b": "in a different order",
    r"\balso (?:if|when|after)\b": "even if",
    r"\btravels?\b": "is sent, is pickled",
    r"\bperhaps\b": "possibly, may",
    r"\bis an error that\b": "raises an error that",
    r"\b(?:frames|images|samples|batches|steps) a (?:cpu )?second\b": "per second",
    r"\bseconds between looks\b": "checks",
}
#: The beginning makes it several times faster.
ANY = re.compile(rf"\b(?=[a-z])(?:{'|'.join(PATTERNS)})")


def files(*suffixes: str) -> list[Path]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    paths += [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md") if path.suffix in suffixes]
    return sorted(path for path in paths if not path.relative_to(ROOT).as_posix().startswith(LEFT_OUT))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of comments, strings of several words and Markdown, with their numbers."""
    content = path.read_text(encoding="utf-8")
    if not ANY.search(content.lower()):
        return  # tokens would take longer
    if path.suffix == ".md":
        without_code = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), content, flags=re.DOTALL)
        yield from enumerate(without_code.split("\n"), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield from enumerate(token.string.split("\n"), token.start[0])


def prose(line: str) -> str:
    """Return a line without code, quotations and fields of f-strings."""
    return re.sub(r"`[^`]*`|\{[^{}]*\}", "x", line)


def found(line: str) -> list[str]:
    text = prose(line)
    return [
        f"{match[0]!r} (better: {advice})"
        for pattern, advice in PATTERNS.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def test_texts_have_no_bad_expressions() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {expression}"
        for path in files(".py", ".md")
        for number, line in texts(path)
        for expression in found(line)
    ]
    assert not wrong, "reword:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("# Data that is no image is refused.", 1),
        ("There is no image, and the server is no longer alive.", 0),
        ("The thread is told; nobody waits.", 2),
        ("a module of NVIDIA's, or one of NVIDIA's modules", 1),
        ("open GOPs (groups of pictures), `picture`, --picture and {picture}", 0),
    ],
)
def test_expressions_are_found_in_prose(line: str, count: int) -> None:
    assert len(found(line)) == count


def test_names_of_tests_begin_with_their_subject() -> None:
    start = re.compile(r"def (test_(?:an?|the|it|this|what|who|whoever|nobody|each|every|there)_\w+)")
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files(".py")
        if "tests" in path.parts
        for name in start.findall(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "name the subject first, as in test_crop_outside_is_an_error:\n" + "\n".join(wrong)
