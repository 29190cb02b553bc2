"""Weights belong to docs: same everywhere, right in distribution, shared in clusters."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataError
from assay.stats import cluster_index, cluster_key, doc_key, doc_keys, poisson_weights, unit_index, unit_keys
from assay.stats.bootstrap import _COUNTS, weight_blocks


def keys_of(n: int) -> np.ndarray:
    return doc_keys(sha256(str(i).encode()).hexdigest() for i in range(n))


def test_table_of_draws_has_mean_and_variance_one() -> None:
    k = np.arange(len(_COUNTS))
    share = np.array(_COUNTS) / 2**16
    assert sum(_COUNTS) == 2**16
    assert share @ k == 1.0
    assert share @ k**2 - 1.0 == 1.0
    assert share @ k**3 == pytest.approx(5.0, abs=1e-4)


def test_weights_are_the_same_on_every_machine() -> None:
    keys = np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert poisson_weights(keys, 6).tolist() == [
        [1, 1, 2, 1],
        [0, 1, 0, 1],
        [2, 1, 1, 0],
        [1, 1, 1, 0],
        [0, 3, 1, 0],
        [3, 0, 0, 0],
    ]


def test_weights_have_poisson_moments_and_no_correlation() -> None:
    weights = poisson_weights(np.arange(3000, dtype=np.uint64), 3000).astype(np.float64)
    assert weights.mean() == pytest.approx(1.0, abs=5 / 3000)
    assert weights.var() == pytest.approx(1.0, abs=0.005)
    centred = weights - 1.0
    between_replicates = centred[:-1].ravel() @ centred[1:].ravel() / centred[1:].size
    between_docs = centred[:, :-1].ravel() @ centred[:, 1:].ravel() / centred[:, 1:].size
    assert abs(between_replicates) < 5 / 3000
    assert abs(between_docs) < 5 / 3000


@given(start=st.integers(0, 50), length=st.integers(0, 50), n=st.integers(0, 7))
def test_any_span_of_replicates_is_a_slice_of_all(start: int, length: int, n: int) -> None:
    keys = keys_of(n)
    span = poisson_weights(keys, range(start, start + length))
    assert span.shape == (length, n)
    assert (span == poisson_weights(keys, 100)[start : start + length]).all()


@pytest.mark.parametrize("cells", [1, 300, 1 << 18])
def test_blocks_cover_every_weight_once(cells: int) -> None:
    keys, whole = keys_of(37), np.zeros((37, 130), dtype=int)
    for docs, draws, weights in weight_blocks(keys, 130, cells=cells):
        whole[docs, draws] += weights + 1
    assert (whole == poisson_weights(keys, 130).T + 1).all()


def test_a_subset_of_docs_keeps_its_weights() -> None:
    keys = keys_of(20)
    assert (poisson_weights(keys[5:9], 50) == poisson_weights(keys, 50)[:, 5:9]).all()


def test_key_is_read_from_hex_and_bytes_alike() -> None:
    digest = sha256("häß😀".encode())
    assert doc_key(digest.hexdigest()) == doc_key(digest.digest())


def test_foreign_ids_get_keys_of_their_own() -> None:
    keys = doc_keys(["q1", "q2", "", "not a hex digest at all", "q1"])
    assert keys[0] == keys[4]
    assert len(set(keys.tolist())) == 4


def test_clusters_share_weights() -> None:
    keys = keys_of(4)
    shared = unit_keys(keys, ["p", "q", "p", "r"])
    assert shared[0] == shared[2] == min(keys[0], keys[2])
    assert len(set(shared.tolist())) == 3
    assert cluster_index(np.array(["b", "a", "b"])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("missing", [None, float("nan"), "", " "])
def test_a_missing_label_is_an_error(missing: object) -> None:
    with pytest.raises(DataError, match="doc 1 "):
        unit_keys(keys_of(3), ["p", missing, "p"])


def test_same_label_in_two_tasks_ties_them_by_column_and_value() -> None:
    keys = keys_of(4)
    left, right, other = (np.array([cluster_key(column, "7")] * 2, dtype=np.uint64) for column in ("p", "p", "q"))
    assert set(unit_keys(keys[:2], left)) == set(unit_keys(keys[2:], right))
    assert not set(unit_keys(keys[:2], left)) & set(unit_keys(keys[2:], other))


def test_equal_docs_are_one_unit_and_join_their_clusters() -> None:
    keys = np.array([1, 2, 1, 3, 4], dtype=np.uint64)
    assert unit_index(keys).tolist() == [0, 1, 0, 2, 3]
    assert unit_index(keys[1:]) is None
    joined = unit_keys(keys, ["a", "a", "b", "b", "c"])
    assert len(set(joined[:4].tolist())) == 1
    assert joined[4] != joined[0]
