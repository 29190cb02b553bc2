"""What has to be known about the processor: before torch computes on it, and to tell it from another."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path

_TILE_LEAF = 0x1D
"""The CPUID leaf that says how large the tiles of AMX are."""
_ISA = "ONEDNN_MAX_CPU_ISA"


@cache
def cpuinfo() -> str:
    """What Linux says of the first processor; empty elsewhere."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return ""


def limit_instructions() -> None:
    """Keep oneDNN, which torch multiplies with, off AMX where it would crash. An `ONEDNN_MAX_CPU_ISA` of one's own stays.

    Some virtual machines announce AMX but hide the leaf that describes its tiles. oneDNN then configures none, and the
    first product in half precision ends the process with an illegal instruction. The variable is read at that moment.
    """
    if hides_tiles(cpuinfo()):
        os.environ.setdefault(_ISA, "AVX512_CORE_FP16")


def hides_tiles(about: str) -> bool:
    """
    >>> hides_tiles("flags\\t: fpu avx512f amx_tile amx_bf16\\ncpuid level\\t: 28\\n")
    True
    >>> hides_tiles("flags\\t: fpu avx512f amx_tile amx_bf16\\ncpuid level\\t: 32\\n")
    False
    """
    highest = re.search(r"^cpuid level\s*:\s*(\d+)", about, re.MULTILINE)
    return "amx_tile" in about and highest is not None and int(highest[1]) < _TILE_LEAF


def multiplies_bfloat16(about: str) -> bool:
    """Whether an x86 processor has instructions with which bfloat16 is faster than float32.

    With AMX it is. With AVX-512's own it is on AMD's processors; on Intel's they do no more multiplications a cycle than
    float32's, and the product takes 1.7 times as long (Xeon of the fifth generation, 64 rows and more).

    >>> multiplies_bfloat16("vendor_id : GenuineIntel\\nflags : avx512_bf16")
    False
    >>> multiplies_bfloat16("vendor_id : AuthenticAMD\\nflags : avx512_bf16")
    True
    """
    limit = os.environ.get(_ISA, "DEFAULT").upper()
    has_tiles = "amx_bf16" in about and (limit in ("DEFAULT", "ALL") or "AMX" in limit)
    return has_tiles or ("avx512_bf16" in about and "GenuineIntel" not in about)


def describe_processor() -> str:
    """Its name and instructions, and which of them may be used: two machines that differ here may round differently."""
    lines = [
        line for line in cpuinfo().splitlines() if line.startswith(("model name", "flags", "Hardware", "Features"))
    ]
    return "\n".join([*(lines or [platform.node()]), os.environ.get(_ISA, "")])
