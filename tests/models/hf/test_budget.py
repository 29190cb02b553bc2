"""How much goes through the model at once: what the machine, or the container, really has."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from assay.models.hf import HFLM, budget

CPU = torch.device("cpu")
GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB available and no container."""
    (tmp_path / "meminfo").write_text("MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")
    (tmp_path / "cgroup").mkdir()
    monkeypatch.setattr(budget, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(budget, "_CGROUP", tmp_path / "cgroup")
    return tmp_path / "cgroup"


def contain(cgroup: Path, limit: str, used: int, cached: int = 0) -> None:
    (cgroup / "memory.max").write_text(f"{limit}\n")
    (cgroup / "memory.current").write_text(f"{used}\n")
    (cgroup / "memory.stat").write_text(f"anon {used - cached}\ninactive_file {cached}\n")


def test_without_a_container_the_machine_counts(machine: Path) -> None:
    assert budget.free_memory(CPU) == 8 * GIB
    contain(machine, "max", 3 * GIB)
    assert budget.free_memory(CPU) == 8 * GIB


def test_a_container_with_less_than_the_machine_counts(machine: Path) -> None:
    contain(machine, str(4 * GIB), 3 * GIB, cached=1 * GIB)
    assert budget.free_memory(CPU) == 2 * GIB
    contain(machine, str(64 * GIB), 3 * GIB)
    assert budget.free_memory(CPU) == 8 * GIB
    contain(machine, str(1 * GIB), 2 * GIB)
    assert budget.free_memory(CPU) == 0


def test_passes_shrink_with_memory_but_not_below_the_smallest(
    machine: Path, llama: HFLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = budget.choose_budget(llama.model)
    assert largest == 1024
    found = []
    for free in (64 << 20, 8 << 20, 1):
        monkeypatch.setattr(budget, "free_memory", lambda device, free=free: free)
        found.append(budget.choose_budget(llama.model))
    assert largest >= found[0] > found[1] >= found[2] == 16


def test_threads_are_the_cores_there_are(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(budget.os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    budget.set_threads(None)
    (machine / "cpu.max").write_text("250000 100000\n")
    budget.set_threads(None)
    budget.set_threads(3)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    budget.set_threads(None)
    assert given == [6, 2, 3], "the environment's own word stands"
