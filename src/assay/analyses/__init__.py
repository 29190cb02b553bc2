"""Something computed from runs, one module or small folder each: compare, rank, gate, ci, drift, explain, noise, power, sweep,
agreement, judging.

Each has its options, a function from runs to a typed result, and a function from that result to `Findings`.
"""
