"""Checkable scores: a run as one file (`assay seal`) from which anyone derives every number again (`assay verify`)."""

from assay.report.sealing.comparing import Difference
from assay.report.sealing.reasking import ModelChoice, Reasked, reask_bundle
from assay.report.sealing.sealing import seal_run
from assay.report.sealing.verifying import Sources, Verification, verify_bundle

__all__ = [
    "Difference",
    "ModelChoice",
    "Reasked",
    "Sources",
    "Verification",
    "reask_bundle",
    "seal_run",
    "verify_bundle",
]
