# SPDX-License-Identifier: GPL-2.0
"""The uncompressed kernel: an emulated CPU needs seconds to decompress one itself.

QEMU starts an ELF vmlinux through its PVH entry point (CONFIG_PVH).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .cache import digest, produce

ELF = b"\x7fELF"
# Magic number at the start of the payload in a bzImage, and the program that decompresses it.
DECOMPRESSORS = (
    (b"\x28\xb5\x2f\xfd", ("zstd", "-dcq")),
    (b"\xfd7zXZ\x00", ("xz", "-dcq")),
    (b"\x1f\x8b\x08", ("gzip", "-dcq")),
)


def extract(image: bytes) -> bytes | None:
    """The ELF kernel inside a bzImage, or None if its compression is unknown."""
    if image.startswith(ELF):
        return image
    for magic, command in DECOMPRESSORS:
        position = image.find(magic)
        while position >= 0:
            # The bytes after the payload make the tool complain after it wrote everything.
            result = subprocess.run(command, input=image[position:], capture_output=True,
                                    check=False)
            if result.stdout.startswith(ELF):
                return result.stdout
            position = image.find(magic, position + 1)
    return None


def uncompressed(kernel: Path, cache: Path) -> Path:
    """A cached uncompressed copy of the kernel, or the kernel itself if that is impossible."""

    def make(copy: Path) -> None:
        image = kernel.read_bytes()
        copy.write_bytes(extract(image) or image)

    return produce(cache / f"vmlinux-{digest(kernel)}", make)
