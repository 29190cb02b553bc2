"""The best member less the worst."""


def spread(values, weights):
    return max(values.values()) - min(values.values())
