# SPDX-License-Identifier: GPL-2.0
"""The kernels that a guest can be booted with: one for each base of the kernel patches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

DEFAULT = "7.3"

# Parameters for a GPU without PSP, SMU, VCN and JPEG; see the driver's ip_block_mask.
_PARAMETERS = ("fw_load_type=0", "ip_block_mask=0x1f")
# Parameters of other chips: without an SMU the driver of GFX11 crashes, and it uses one only if a
# PSP loads the firmware. The masks drop the PSP, and the mode in which it gives VCN its registers.
# User queues are off by default. The last of two values of a parameter counts.
_PARAMETERS_OF_ASICS = {"navi31": ("fw_load_type=-1", "ip_block_mask=0x3f7", "pg_mask=0xffff7fff",
                                   "user_queue=1", "dpm=-1")}


@dataclass(frozen=True)
class Base:
    """A kernel, and the parameters of its driver besides those of the chips."""

    name: str
    more_parameters: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Our amdgpu.ko for it, in the repository."""
        return f"build/module/{self.name}/amdgpu.ko"

    def parameters(self, asics: Iterable[str]) -> tuple[str, ...]:
        """Module parameters that disable parts that the GPU models lack: one set for all GPUs."""
        wanted = {asic: _PARAMETERS_OF_ASICS.get(asic, _PARAMETERS) for asic in asics}
        if len(set(wanted.values())) > 1:
            raise ValueError(f"{', '.join(wanted)}: their drivers need different module parameters")
        return self.more_parameters + next(iter(wanted.values()))


BASES = {base.name: base for base in (
    Base(DEFAULT),
    Base("6.12", ("dpm=0", "ras_enable=0", "discovery=0")),
)}
