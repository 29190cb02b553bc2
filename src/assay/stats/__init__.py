"""What a number is worth: standard errors, intervals, bootstrap replicates, paired comparison, power."""

from assay.stats.bootstrap import bootstrap_estimate, bootstrap_replicates, bootstrap_values, replicate_spread
from assay.stats.closed import (
    clustered_stderr,
    mean,
    mean_estimate,
    mean_stderr,
    ratio_estimate,
    ratio_stderr,
    wilson,
)
from assay.stats.estimate import B_DEFAULT, Estimate, Score
from assay.stats.pooling import pooled_stderr, unweighted_stderr, weighted_stderr
from assay.stats.quantiles import normal_quantile, t_quantile
from assay.stats.weights import cluster_index, cluster_keys, doc_key, doc_keys, poisson_weights

__all__ = [
    "B_DEFAULT",
    "Estimate",
    "Score",
    "bootstrap_estimate",
    "bootstrap_replicates",
    "bootstrap_values",
    "cluster_index",
    "cluster_keys",
    "clustered_stderr",
    "doc_key",
    "doc_keys",
    "mean",
    "mean_estimate",
    "mean_stderr",
    "normal_quantile",
    "poisson_weights",
    "pooled_stderr",
    "ratio_estimate",
    "ratio_stderr",
    "replicate_spread",
    "t_quantile",
    "unweighted_stderr",
    "weighted_stderr",
    "wilson",
]
