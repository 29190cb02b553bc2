"""Stored responses: each answer once, by the content of its request."""

from assay.store.codec import decode_answer, encode_answer
from assay.store.keys import RequestKeys, join_digests, request_digest, request_hash, request_key
from assay.store.maintenance import OriginStats, Stats, Verification, collect_garbage, export_responses, stats, verify
from assay.store.responses import AnswerOrigin, ResponseStore, default_store_path

__all__ = [
    "AnswerOrigin",
    "OriginStats",
    "RequestKeys",
    "ResponseStore",
    "Stats",
    "Verification",
    "collect_garbage",
    "decode_answer",
    "default_store_path",
    "encode_answer",
    "export_responses",
    "join_digests",
    "request_digest",
    "request_hash",
    "request_key",
    "stats",
    "verify",
]
