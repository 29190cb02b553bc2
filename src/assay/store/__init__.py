"""Responses, kept: each answer once, by the content of its question."""

from assay.store.codec import StoredResponse, decode_response, encode_response
from assay.store.keys import RequestKeys, request_key
from assay.store.maintenance import OriginStats, Stats, Verification, collect_garbage, export_responses, stats, verify
from assay.store.responses import ResponseStore, default_store_path

__all__ = [
    "OriginStats",
    "RequestKeys",
    "ResponseStore",
    "Stats",
    "StoredResponse",
    "Verification",
    "collect_garbage",
    "decode_response",
    "default_store_path",
    "encode_response",
    "export_responses",
    "request_key",
    "stats",
    "verify",
]
