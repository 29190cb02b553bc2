"""How much does a server move by itself? The same docs, sent again and again."""

from assay.analyses.noise.measurement import measure_noise
from assay.analyses.noise.replays import NoiseOptions, Replay, plan_replays, run_replays
from assay.analyses.noise.showing import findings
from assay.analyses.noise_file import NoiseFile, ScoreNoise

__all__ = [
    "NoiseFile",
    "NoiseOptions",
    "Replay",
    "ScoreNoise",
    "findings",
    "measure_noise",
    "plan_replays",
    "run_replays",
]
