# SPDX-License-Identifier: GPL-2.0
"""The kernels that a guest can be booted with: one for each base of the kernel patches."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT = "7.2"

# What a GPU without PSP, SMU, VCN and JPEG needs; see the driver's ip_block_mask.
_PARAMETERS = ("fw_load_type=0", "ip_block_mask=0x1f")


@dataclass(frozen=True)
class Base:
    """A kernel, and module parameters for its driver that disable what the GPU models lack."""

    name: str
    parameters: tuple[str, ...]

    @property
    def module(self) -> str:
        """Our amdgpu.ko for it, in the repository."""
        return f"build/module/{self.name}/amdgpu.ko"


BASES = {base.name: base for base in (
    Base(DEFAULT, _PARAMETERS),
    Base("6.12", (*_PARAMETERS, "dpm=0", "ras_enable=0", "discovery=0")),
)}
