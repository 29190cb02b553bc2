"""Requests to responses on many machines: a Ray cluster is a model like any other."""

from assay.cluster.connection import connect, import_ray, node_resources, plan_replicas
from assay.cluster.lm import ClusterLM, load_on_cluster

__all__ = [
    "ClusterLM",
    "connect",
    "import_ray",
    "load_on_cluster",
    "node_resources",
    "plan_replicas",
]
