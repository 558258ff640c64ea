# SPDX-License-Identifier: GPL-2.0
"""The texts with which the kernel half refuses calls, and those that tests have reached."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r"/\*(?:.|\n)*?\*/|^#.*$", re.M)
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*')
_PART = re.compile(r'"((?:[^"\\]|\\.)*)"')
_CONVERSION = re.compile(r"%(?:\*ph|pV|#?(?:ll|l|z)?[a-z])")
_MATCH = {"s": "(.+)", "u": r"\d+", "d": r"-?\d+", "x": "(?:0x)?[0-9a-f]+"}
_SUBJECT = re.compile(r"\.subject = $")
# The literals of these statements are no part of a reason.
_OTHER = re.compile(r"\b(?:(?:pr|dev)_\w+|seq_printf|anon_inode_getfile|CRIU_RECORD|CRIU_BLOB_SCHEMA)\(|"
                    r"\.name = $")
# criu_refuse_state() puts it before each of its texts.
_STATE = "cannot carry: "
_REFUSED = re.compile(r"\s*# refused: (?P<reason>.+)")


def _regex(text: str) -> re.Pattern[str]:
    """Matches a format's output; its groups are the strings in it."""
    plain = [re.escape(part) for part in _CONVERSION.split(text)]
    kinds = [_MATCH.get(conversion[-1], ".+") for conversion in _CONVERSION.findall(text)]
    return re.compile("".join(a + b for a, b in zip(plain, [*kinds, ""], strict=True)))


@dataclass(frozen=True)
class Text:
    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


def _literals(source: str) -> Iterator[tuple[str, str]]:
    """Each literal, with its statement up to there."""
    source = _COMMENT.sub("", source)
    for literal in _LITERAL.finditer(source):
        before = re.split(r"[;{}]", source[:literal.start()])[-1]
        yield "".join(_PART.findall(literal[0])), before


def _family(file: str) -> str:
    """Returns the common part of the names of files about one kind of state."""
    return re.sub(r"(_(check|apply|plan))?\.c$", "", file)


class Texts:
    """All texts of the files, which are names and sources."""

    def __init__(self, files: Iterable[tuple[str, str]]) -> None:
        self.all: dict[Text, re.Pattern[str]] = {}
        self._subjects: list[tuple[re.Pattern[str], str]] = []
        for file, source in files:
            for literal, before in _literals(source):
                if _SUBJECT.search(before):
                    self._subjects.append((_regex(literal + ": %s"), _family(file)))
                elif re.search("[a-z]", _CONVERSION.sub("", literal), re.I) and not _OTHER.search(before):
                    self.all[Text(file, literal)] = _regex(literal)

    def reached_by(self, reason: str) -> set[Text]:
        """The texts that a reason consists of."""
        reason = reason.removeprefix(_STATE)
        found = self._parts(reason, None)
        for pattern, family in self._subjects:
            if match := pattern.fullmatch(reason):
                found |= self._parts(match[1], family)
        return found

    def _parts(self, reason: str, family: str | None) -> set[Text]:
        families = {family for _, family in self._subjects}
        found = set()
        for text, pattern in self.all.items():
            own = _family(text.file)
            if family and own in families and own != family:
                continue
            if match := pattern.fullmatch(reason):
                found.add(text)
                for part in match.groups():
                    found |= self._parts(part, family)
        return found


def sources(directory: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(directory.glob("*/*.c")):
        yield path.name, path.read_text()


def reasons(lines: Iterable[str]) -> Iterator[str]:
    """What the guest's command kselftest prints."""
    for line in lines:
        if match := _REFUSED.match(line):
            yield match["reason"].rstrip()


def listed(lines: Iterable[str]) -> dict[str, str]:
    """Returns the texts that no test reaches, and why, from lines "FILE: TEXT | REASON"."""
    rows = (line.rstrip("\n").partition(" | ") for line in lines if line.strip() and line[0] != "#")
    return {text: why for text, _, why in rows}


def faults(texts: Texts, reached: set[Text], excused: dict[str, str]) -> list[str]:
    """Returns what is wrong: texts that no test reaches and that are not listed, lines without a text."""
    names = {str(text) for text in texts.all}
    unreached = names - {str(text) for text in reached}
    return [*(f"no test reaches \"{name}\"" for name in sorted(unreached - set(excused))),
            *(f"the list has no reason for \"{name}\"" for name, why in excused.items() if not why),
            *(f"the list names a text that does not exist: \"{name}\""
              for name in excused if name not in names)]
