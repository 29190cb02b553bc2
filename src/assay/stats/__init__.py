"""What a number is worth: standard errors, intervals, bootstrap replicates, paired comparison, power."""

from assay.stats.aggregation import Aggregation
from assay.stats.agreement import krippendorff
from assay.stats.bootstrap import (
    bootstrap_estimate,
    bootstrap_replicates,
    bootstrap_values,
    cluster_index,
    cluster_keys,
    doc_key,
    doc_keys,
    poisson_weights,
)
from assay.stats.closed_form import (
    clustered_stderr,
    mean,
    mean_estimate,
    mean_stderr,
    pooled_stderr,
    ratio_estimate,
    ratio_stderr,
    unweighted_stderr,
    weighted_stderr,
    wilson,
)
from assay.stats.components import Components, variance_components
from assay.stats.control import control_estimate
from assay.stats.estimate import B_DEFAULT, Estimate, Floats
from assay.stats.paired import Difference, paired_difference, replicate_difference, unpaired_difference
from assay.stats.power import (
    PairedNoise,
    detectable_effect,
    docs_needed,
    repeats_needed,
)
from assay.stats.prediction_powered import (
    FEWEST_LABELS,
    Corrected,
    Judged,
    Rate,
    corrected_difference,
    corrected_mean,
    corrected_replicates,
)
from assay.stats.sequential import ConfidenceSequence, DiscordantEvidence, StoppingRule
from assay.stats.significance import chance_p_value, holm, mcnemar, normal_cdf, normal_quantile
from assay.stats.verdict import (
    GateResult,
    Verdict,
    above_threshold,
    judge,
    non_inferiority,
    summary_above_threshold,
)

__all__ = [
    "B_DEFAULT",
    "FEWEST_LABELS",
    "Aggregation",
    "Components",
    "ConfidenceSequence",
    "Corrected",
    "Difference",
    "DiscordantEvidence",
    "Estimate",
    "Floats",
    "GateResult",
    "Judged",
    "PairedNoise",
    "Rate",
    "StoppingRule",
    "Verdict",
    "above_threshold",
    "bootstrap_estimate",
    "bootstrap_replicates",
    "bootstrap_values",
    "chance_p_value",
    "cluster_index",
    "cluster_keys",
    "clustered_stderr",
    "control_estimate",
    "corrected_difference",
    "corrected_mean",
    "corrected_replicates",
    "detectable_effect",
    "doc_key",
    "doc_keys",
    "docs_needed",
    "holm",
    "judge",
    "krippendorff",
    "mcnemar",
    "mean",
    "mean_estimate",
    "mean_stderr",
    "non_inferiority",
    "normal_cdf",
    "normal_quantile",
    "paired_difference",
    "poisson_weights",
    "pooled_stderr",
    "ratio_estimate",
    "ratio_stderr",
    "repeats_needed",
    "replicate_difference",
    "summary_above_threshold",
    "unpaired_difference",
    "unweighted_stderr",
    "variance_components",
    "weighted_stderr",
    "wilson",
]
