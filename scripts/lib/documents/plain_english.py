#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""plain_english.py TOP: reports phrases of plain_english.txt.

Reads paths of tracked files from standard input. A comment that asks a question is a fault, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("plain_english.txt")
# Matches parts of identifiers, such as let_go and letGo, but not /home or $HOME.
_WORD = r"(?:(?<![A-Za-z/$])|(?<=[a-z])(?=[A-Z])){}(?![a-z])(?!(?<=[A-Z])[A-Z])"
# Between two words: a space, an underscore, a capital letter, or a line break with the margin of a
# comment.
_GAP = r"(?:[ _]|(?<=[a-z])(?=[A-Z])|[ ]?\n\s*(?://|\*|#)?\s*)"
_QUESTION = re.compile(r"^\s*(?://|/?\*|#)\s.*[a-z)]\?\s*(?:\*/)?$", re.M)
_ASK = "a comment states a fact"


@dataclass(frozen=True)
class Phrase:
    pattern: re.Pattern[str]
    instead: str
    # In a text in small letters. Most texts lack a word, which takes much less time to find out.
    words: tuple[re.Pattern[str], ...]

    def found(self, text: str, small: str) -> Iterator[re.Match[str]]:
        if all(word.search(small) for word in self.words):
            yield from self.pattern.finditer(text)


@dataclass(frozen=True)
class Rules:
    exceptions: tuple[str, ...]
    phrases: tuple[Phrase, ...]

    def covers(self, path: str) -> bool:
        return not any(path == one or path.startswith(one + "/") for one in self.exceptions)


def parse(text: str) -> Rules:
    exceptions, phrases = [], []
    for line in text.splitlines():
        pattern, arrow, instead = line.partition(" => ")
        if line.startswith("except "):
            exceptions.append(line.split()[1])
        elif arrow:
            words = pattern.split(" ")
            whole = _WORD.format(_GAP.join(f"(?i:{word})" for word in words))
            phrases.append(Phrase(re.compile(whole), instead,
                                  tuple(re.compile(word.lower()) for word in words)))
    return Rules(tuple(exceptions), tuple(phrases))


def faults(rules: Rules, path: str, text: str) -> list[str]:
    if not rules.covers(path):
        return []
    small = text.lower()
    found = [(match.start(), " ".join(match[0].split()), phrase.instead)
             for phrase in rules.phrases for match in phrase.found(text, small)]
    found += [(match.start(), match[0].strip(), _ASK) for match in _QUESTION.finditer(text)]
    return [f"{path}:{text.count(chr(10), 0, start) + 1}: '{what}': {instead}"
            for start, what, instead in sorted(found)]


def main() -> int:
    rules = parse(LIST.read_text())
    found: list[str] = []
    for path in sys.stdin.read().split():
        data = (Path(sys.argv[1]) / path).read_bytes()
        if b"\0" not in data:
            found += faults(rules, path, data.decode(errors="replace"))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
