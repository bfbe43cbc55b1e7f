"""Lists sentences that a reader may stumble over, names of tests without a subject, and modules that are too long.

    python -m docs.style            all files
    python -m docs.style FILE ...   these files

These are warnings: a change with them can be merged. Reword a sentence if that makes it clearer.
"""

from __future__ import annotations

import argparse
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

__all__ = ["expressions", "warnings_about"]

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("pipeline", "dali_proxy", "docs", "examples", "benchmarks", "tests")
MOST_LINES = 600
#: Records of measurements, which stay as they were written, and files that quote the patterns.
LEFT_OUT = ("benchmarks/results/", "docs/style.py", "tests/docs/test_style.py")

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
_TEST = re.compile(r"^def (test_(?:an?|the|it|this|what|who|whoever|nobody|each|every|there)_\w+)")


def files() -> list[Path]:
    """Return the Python files and pages that this project checks."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md")]
    return sorted([*paths, ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def warnings_about(path: Path) -> Iterator[str]:
    """Yield the warnings about a file, each with its line.

    Args:
        path: a Python file or a Markdown page, in this repository or anywhere else.
    """
    content = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    if name.startswith(LEFT_OUT):
        return
    for number, line in _texts(path, content):
        for found in expressions(line):
            yield f"{name}:{number}: {found}\n    {line.strip()}"
    lines = content.splitlines()
    if path.name.startswith("test_"):
        for number, line in enumerate(lines, 1):
            if match := _TEST.match(line):
                yield f"{name}:{number}: {match[1]}: name the subject first, as in test_crop_outside_is_an_error"
    if path.suffix == ".py" and name.startswith(("pipeline/", "dali_proxy/")) and len(lines) > MOST_LINES:
        yield f"{name}: {len(lines)} lines; which second noun could have its own file?"


def expressions(line: str) -> list[str]:
    """Return the expressions of a line to reword, with advice."""
    prose = re.sub(r"`[^`]*`|\{[^{}]*\}", "x", line)  # without code, quotations and fields of f-strings
    return [
        f"{match[0]!r} (better: {advice})"
        for pattern, advice in PATTERNS.items()
        for match in re.finditer(pattern, prose, re.IGNORECASE)
    ]


def _texts(path: Path, content: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of comments, strings of several words and Markdown, with their numbers."""
    if not ANY.search(content.lower()):
        return  # tokens would take longer
    if path.suffix == ".md":
        without_code = re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), content, flags=re.DOTALL)
        yield from enumerate(without_code.split("\n"), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield from enumerate(token.string.split("\n"), token.start[0])


def main() -> None:
    """Print the warnings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="files to check, instead of all")
    chosen = [path.resolve() for path in parser.parse_args().files] or files()
    found = [warning for path in chosen for warning in warnings_about(path)]
    for warning in found:
        print(warning)
    if found:
        print(f"{len(found)} warnings about style, which don't stop a change.")


if __name__ == "__main__":
    main()
