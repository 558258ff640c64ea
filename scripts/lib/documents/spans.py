# SPDX-License-Identifier: GPL-2.0
"""The parts of a document that name things: inline code and code blocks.

Markdown: `code`, and the lines of a fenced block without an info string (```text is not read).
reStructuredText: ``literal``, and the path of a kernel-doc directive.
Manual pages: what is set in bold or italic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# A word that says what kind of name stands beside it: "the suites `e2e` and `igt`".
KINDS = ("suite", "scenario", "campaign", "rung", "check", "workload")
_KIND = "|".join(KINDS)
_LIST = r"((?:`[^`\n]+`(?:,\s+|\s+and\s+|\s+or\s+|,\s+and\s+)?)+)"
_KIND_FIRST = re.compile(rf"\b({_KIND})s?(?: +| *\n *){_LIST}")
_KIND_LAST = re.compile(rf"`([^`\n]+)`(?: +| *\n *)({_KIND})s?\b")
_MARKDOWN_CODE = re.compile(r"`([^`\n]+)`")
_MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
_RST_CODE = re.compile(r"``([^`]+?)``")
_RST_KERNEL_DOC = re.compile(r"^\.\. kernel-doc:: (\S+)", re.M)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Span:
    line: int
    text: str
    kind: str = "code"  # or "link", or one of KINDS


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _blank(match: re.Match[str]) -> str:
    """Replaces a text by as many spaces and line breaks."""
    return re.sub(r"[^\n]", " ", match[0])


def _markdown(text: str) -> Iterator[Span]:
    for block in _FENCE.finditer(text):
        if block[1]:
            continue
        first = _line(text, block.start(2))
        for number, line in enumerate(block[2].splitlines()):
            command = line.split(" # ")[0].split("   #")[0].strip()
            if command and not command.startswith("#"):
                yield Span(first + number, command)
    prose = _FENCE.sub(_blank, text)
    prose = re.sub(r"<!--.*?-->", _blank, prose, flags=re.S)
    for match in _MARKDOWN_CODE.finditer(prose):
        yield Span(_line(prose, match.start()), match[1])
    for match in _MARKDOWN_LINK.finditer(prose):
        yield Span(_line(prose, match.start()), match[1], "link")
    for match in _KIND_FIRST.finditer(prose):
        for name in _MARKDOWN_CODE.findall(match[2]):
            yield Span(_line(prose, match.start()), name, match[1])
    for match in _KIND_LAST.finditer(prose):
        yield Span(_line(prose, match.start()), match[1], match[2])


def _rst(text: str) -> Iterator[Span]:
    for match in _RST_CODE.finditer(text):
        yield Span(_line(text, match.start()), " ".join(match[1].split()))
    for match in _RST_KERNEL_DOC.finditer(text):
        yield Span(_line(text, match.start()), match[1])


def _unescape(roff: str) -> str:
    for escape, plain in ((r"\-", "-"), (r"\~", "\0"), (r"\|", ""), (r"\&", ""), (r"\(aq", "'")):
        roff = roff.replace(escape, plain)
    return re.sub(r"\\f[BIRP]", "", roff)


def _manual(text: str) -> Iterator[Span]:
    for number, line in enumerate(text.splitlines(), 1):
        macro = re.match(r"\.(B|I|BR|BI|IR|IB|RB|RI)\s+(.*)", line)
        if macro:
            words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', _unescape(macro[2]))]
            # Fonts that alternate join their words: .BR criu (8)
            joined = (" " if len(macro[1]) == 1 else "").join(words)
            yield Span(number, joined.replace("\0", " "))
        for code in re.findall(r"\\f[BI](.+?)\\f[RP]", line):
            yield Span(number, _unescape(code))


def spans(path: str, text: str) -> Iterator[Span]:
    if path.endswith(".md"):
        return _markdown(text)
    return _rst(text) if path.endswith(".rst") else _manual(text)
