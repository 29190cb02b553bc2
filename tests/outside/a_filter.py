"""A filter that needs all docs at once: how common an answer is among all of them."""

from collections import Counter

from assay.filters import Filter


class Common(Filter):
    def apply(self, resps, docs):
        counts = Counter(text for texts in resps for text in texts)
        return [[f"{counts[text]} of {len(resps)}" for text in texts] for texts in resps]
