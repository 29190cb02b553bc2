"""How much a server moves by itself: replays of the same docs, and what their scores differ by."""

from assay.comparison.noise.measurement import measure_noise
from assay.comparison.noise.replays import NoiseOptions, Replay, plan_replays, run_replays

__all__ = ["NoiseOptions", "Replay", "measure_noise", "plan_replays", "run_replays"]
