"""Which docs stand together: those of a cluster, and those of equal content. Errors are counted by such units."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError
from assay.stats.estimate import Clusters, Floats, Keys


def doc_key(content_hash: str | bytes) -> np.uint64:
    """The first 64 bits of a doc's content hash (hex text or raw bytes).

    >>> hex(doc_key("0123456789abcdef" + "0" * 48))
    '0x123456789abcdef'
    """
    head = bytes.fromhex(content_hash[:16]) if isinstance(content_hash, str) else content_hash[:8]
    return np.uint64(int.from_bytes(head, "big"))


def doc_keys(content_hashes: Iterable[str | bytes]) -> Keys:
    """`content_key` of many."""
    return np.fromiter((content_key(h) for h in content_hashes), dtype=np.uint64)


def content_key(content_hash: str | bytes) -> np.uint64:
    """`doc_key`; text that is not a hex digest (ids of foreign logs) is hashed first."""
    if isinstance(content_hash, str):
        try:
            if len(content_hash) >= 16:
                return doc_key(content_hash)
        except ValueError:
            pass  # an id that only happens to be long; it gets a hash of its own below
        content_hash = sha256(content_hash.encode()).digest()
    return doc_key(content_hash)


def cluster_key(column: str, label: Any) -> np.uint64:
    """The key of a cluster: of its column and its value, so that two tasks on the same passages know it.

    >>> bool(cluster_key("passage", 7) == cluster_key("passage", "7") != cluster_key("page", 7))
    True
    """
    return doc_key(sha256(f"{column}\0{label}".encode(errors="surrogatepass")).digest())


def is_missing_label(label: Any) -> bool:
    """Nothing, not a number, or an empty text: it names no cluster."""
    return label is None or label != label or (isinstance(label, str) and not label.strip())


def cluster_index(clusters: Clusters) -> NDArray[np.int64]:
    """Each doc's cluster as 0 … C−1, in the order of their first docs.

    >>> cluster_index(["p1", "p2", "p1"]).tolist()
    [0, 1, 0]
    """
    if isinstance(clusters, np.ndarray) and clusters.dtype.kind in "iu":
        _, first, index = np.unique(clusters, return_index=True, return_inverse=True)
        return np.asarray(np.argsort(np.argsort(first))[index.reshape(-1)], dtype=np.int64)
    seen: dict[Any, int] = {}
    for at, label in enumerate(clusters):
        if is_missing_label(label):
            raise DataError(f"doc {at} has no cluster label", hint="Every doc needs a cluster label.")
        seen.setdefault(label, len(seen))
    return np.fromiter((seen[label] for label in clusters), dtype=np.int64, count=len(clusters))


def unit_keys(keys: Keys, clusters: Clusters | None = None) -> Keys:
    """The key of the unit each doc belongs to. Docs of equal content have equal keys and are one unit by themselves.

    A doc that occurs in two clusters makes them one. Labels that are keys (`cluster_key`) name their clusters across
    tasks; other labels mean nothing outside these docs, and the smallest key of a doc stands for the cluster.
    """
    docs = np.asarray(keys, dtype=np.uint64)
    if clusters is None or len(docs) == 0:
        return docs
    index = cluster_index(clusters)
    named = isinstance(clusters, np.ndarray) and clusters.dtype == np.uint64
    names = np.asarray(clusters, dtype=np.uint64) if named else docs
    if has_repeats(docs):
        index = _joined(docs, index)
    smallest = np.full(int(index.max()) + 1, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(smallest, index, names)
    return smallest[index]


def unit_index(keys: Keys) -> NDArray[np.int64] | None:
    """Units as 0 … C−1; None where every doc is a unit of its own, which has simpler formulas."""
    return cluster_index(np.asarray(keys, dtype=np.uint64)) if has_repeats(keys) else None


def sums_by(index: NDArray[np.int64], values: Floats) -> Floats:
    """Σ values of each unit."""
    return np.asarray(np.bincount(index, weights=values), dtype=np.float64)


def has_repeats(keys: Keys) -> bool:
    ordered = np.sort(keys)
    return bool((ordered[1:] == ordered[:-1]).any())


def _joined(docs: Keys, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Clusters that share a doc become one: components of the graph whose edges are docs."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    contents = cluster_index(docs)
    clusters = int(index.max()) + 1
    size = clusters + int(contents.max()) + 1
    edges = csr_array((np.ones(len(docs)), (index, contents + clusters)), shape=(size, size))
    _, component = connected_components(edges, directed=False)
    return np.asarray(component[index], dtype=np.int64)
