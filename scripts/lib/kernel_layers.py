#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""kernel_layers.py TABLE FILE.c...: fails if a file uses a function or an object of a later file of TABLE.

Functions that are static, declarations, comments and strings do not count.
"""

import re
import sys
from pathlib import Path

FUNCTION = re.compile(r"^(?!static\b|typedef\b|return\b)[A-Za-z_][\w \t*]*?[ \t*]([a-z_]\w*)\([^;{}]*\)\n\{", re.M)
OBJECT = re.compile(r"^(?!static\b|extern\b)const struct \w+ (\w+)(?:\[\])? =", re.M)


def code(text):
    """Returns C code without comments and strings."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def read_table(path):
    """Returns the names of files in order."""
    lines = [line.split("#")[0] for line in path.read_text().splitlines()]
    return " ".join(line.split(":")[-1] for line in lines).split()


def definitions(text):
    return set(FUNCTION.findall(text)) | set(OBJECT.findall(text))


def uses(text):
    """Returns the words that may be functions or objects: not the tags of structures."""
    return set(re.findall(r"\b[a-z]\w+", re.sub(r"\b(struct|enum|union)\s+\w+", "", text)))


def faults(order, sources):
    """Yields what is wrong. @sources: text of each file by its name."""
    for name in sorted(set(sources) ^ set(order)):
        yield f"{name}: not in the table of layers" if name in sources else f"{name}: no such file"
    where = {}
    texts = {name: code(text) for name, text in sources.items() if name in order}
    for name, text in texts.items():
        where.update(dict.fromkeys(definitions(text), name))
    for name, text in texts.items():
        for word in sorted(uses(text) & set(where)):
            if order.index(where[word]) > order.index(name):
                yield f"{name}.c uses {word} of {where[word]}.c, which is a higher layer"


def main():
    order = read_table(Path(sys.argv[1]))
    sources = {}
    for path in map(Path, sys.argv[2:]):
        sources[path.stem] = sources.get(path.stem, "") + path.read_text()
    found = list(faults(order, sources))
    print("\n".join(found) or f"{len(sources)} files call lower layers only")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
