"""Requests to responses on many machines: a Ray cluster is a model like any other.

Reached by the registry `assay.run.EXECUTORS` only: without this folder everything else works, and `--executor ray` is refused.
"""

from assay.cluster.connection import connect, import_ray, node_resources, plan_replicas
from assay.cluster.lm import ClusterLM, RayExecutor

__all__ = [
    "ClusterLM",
    "RayExecutor",
    "connect",
    "import_ray",
    "node_resources",
    "plan_replicas",
]
