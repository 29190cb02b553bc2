"""Checkable scores: a run as one file (`assay seal`) from which anyone derives every number again (`assay verify`)."""

from assay.sealing.comparing import SealedDifference
from assay.sealing.lines import reasked_lines, verification_lines
from assay.sealing.reasking import ModelChoice, Reasked, reask_bundle
from assay.sealing.sealing import seal_run
from assay.sealing.verifying import SealVerification, Sources, verify_bundle

__all__ = [
    "ModelChoice",
    "Reasked",
    "SealVerification",
    "SealedDifference",
    "Sources",
    "reask_bundle",
    "reasked_lines",
    "seal_run",
    "verification_lines",
    "verify_bundle",
]
