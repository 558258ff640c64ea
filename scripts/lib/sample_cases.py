#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""sample_cases.py FILE COUNT: leaves a sample of the cases in the test data of rocBLAS, rocSPARSE or hipBLASLt.

Their tests read all cases when they start, which takes minutes in an emulated guest. The sample has COUNT of
those of the category "quick", always the same ones. The file is the name of the library and a zero, one record
that is a signature, the name with its case swapped and a zero, and a record for each case. The records have the
same size.
"""

import random
import re
import sys
from pathlib import Path

CATEGORY = re.compile(rb"\0quick\0")


def sample(data: bytes, count: int) -> bytes:
    name = data[:data.index(b"\0") + 1]
    start = data.index(name.swapcase()) + len(name)
    size = start - 2 * len(name)
    left = len(data) - start
    if size < 1 or left % size:
        raise ValueError(f"{left} bytes are not records of {size} bytes")
    # A case of another category may have the word elsewhere: the filter *quick* leaves it out.
    quick = sorted({(match.start() - start) // size for match in CATEGORY.finditer(data, start)})
    if len(quick) < count:
        raise ValueError(f"there are {len(quick)} quick cases, not {count}")
    chosen = sorted(random.Random(1).sample(quick, count))
    return data[:start] + b"".join(data[start + at * size:start + (at + 1) * size] for at in chosen)


def main() -> int:
    file, count = Path(sys.argv[1]), int(sys.argv[2])
    data = sample(file.read_bytes(), count)
    file.write_bytes(data)
    print(f"{file.name}: {count} cases, {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
