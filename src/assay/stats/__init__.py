"""What a number is worth: standard errors, intervals, bootstrap replicates, paired comparison, power."""

from assay.stats.aggregation import Aggregation
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
from assay.stats.components import Components, variance_components
from assay.stats.control import Controlled, control_estimate
from assay.stats.estimate import B_DEFAULT, Estimate, Score
from assay.stats.paired import Difference, paired_difference, replicate_difference, unpaired_difference
from assay.stats.pooling import pooled_stderr, unweighted_stderr, weighted_stderr
from assay.stats.power import (
    PairedNoise,
    detectable_effect,
    docs_needed,
    paired_noise_from_scores,
    power_of,
    repeats_needed,
)
from assay.stats.quantiles import normal_cdf, normal_quantile, t_quantile
from assay.stats.sequential import ConfidenceSequence, DiscordantEvidence
from assay.stats.significance import binomial_tail, chance_p_value, holm, mcnemar
from assay.stats.stopping import StoppingRule
from assay.stats.verdict import (
    GateResult,
    Verdict,
    above_threshold,
    judge,
    non_inferiority,
    summary_above_threshold,
)
from assay.stats.weights import cluster_index, cluster_keys, doc_key, doc_keys, poisson_weights

__all__ = [
    "B_DEFAULT",
    "Aggregation",
    "Components",
    "ConfidenceSequence",
    "Controlled",
    "Difference",
    "DiscordantEvidence",
    "Estimate",
    "GateResult",
    "PairedNoise",
    "Score",
    "StoppingRule",
    "Verdict",
    "above_threshold",
    "binomial_tail",
    "bootstrap_estimate",
    "bootstrap_replicates",
    "bootstrap_values",
    "chance_p_value",
    "cluster_index",
    "cluster_keys",
    "clustered_stderr",
    "control_estimate",
    "detectable_effect",
    "doc_key",
    "doc_keys",
    "docs_needed",
    "holm",
    "judge",
    "mcnemar",
    "mean",
    "mean_estimate",
    "mean_stderr",
    "non_inferiority",
    "normal_cdf",
    "normal_quantile",
    "paired_difference",
    "paired_noise_from_scores",
    "poisson_weights",
    "pooled_stderr",
    "power_of",
    "ratio_estimate",
    "ratio_stderr",
    "repeats_needed",
    "replicate_difference",
    "replicate_spread",
    "summary_above_threshold",
    "t_quantile",
    "unpaired_difference",
    "unweighted_stderr",
    "variance_components",
    "weighted_stderr",
    "wilson",
]
