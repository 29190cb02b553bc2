"""Checkable scores: a run as one file (`assay seal`) from which anyone derives every number again (`assay verify`)."""

from assay.sealing.comparing import SealedDifference
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
    "seal_run",
    "verify_bundle",
]
