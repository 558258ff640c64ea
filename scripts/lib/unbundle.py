# SPDX-License-Identifier: GPL-2.0
"""unbundle.py LIBRARY TARGET DIRECTORY: writes the code objects for a GPU that a library has.

They are in bundles of clang-offload-bundler: a magic word, the number of entries, and for each entry its
offset, its size, the length of its name, and the name.
"""

import mmap
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"


def code_objects(data: mmap.mmap | bytes, target: str) -> Iterator[bytes]:
    start = data.find(MAGIC)
    while start >= 0:
        at = start + len(MAGIC)
        count = struct.unpack_from("<Q", data, at)[0]
        at += 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", data, at)
            name = data[at + 24:at + 24 + length].decode()
            at += 24 + length
            if target in name.split("-")[-1].split(":") and size:
                yield bytes(data[start + offset:start + offset + size])
        start = data.find(MAGIC, at)


def main() -> int:
    library, target, directory = sys.argv[1:]
    out = Path(directory)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    count = 0
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for count, code in enumerate(code_objects(data, target), 1):
            (out / f"{count}.co").write_bytes(code)
    print(f"{count} code objects")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
