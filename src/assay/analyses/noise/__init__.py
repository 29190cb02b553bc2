"""How much a server moves by itself: replays of the same docs, and what their scores differ by."""

from assay.analyses.noise.measurement import measure_noise
from assay.analyses.noise.replays import NoiseOptions, Replay, plan_replays, run_replays

__all__ = ["NoiseOptions", "Replay", "measure_noise", "plan_replays", "run_replays"]
