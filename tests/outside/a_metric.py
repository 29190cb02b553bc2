"""A metric for choices."""

from assay.metrics import register_metric


@register_metric("margin", kind="choice")
def margin(result):
    """How far the right choice is ahead of the best wrong one."""
    right = result.lls[result.target]
    return right - max(ll for place, ll in enumerate(result.lls) if place != result.target)
