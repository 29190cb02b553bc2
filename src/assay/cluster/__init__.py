"""Requests to responses on many machines: a Ray cluster is a model like any other."""

from assay.cluster.lm import ClusterLM, load_on_cluster

__all__ = ["ClusterLM", "load_on_cluster"]
