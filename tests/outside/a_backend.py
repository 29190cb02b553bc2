"""A model that likes long answers, and says so when it writes."""

from assay.models import LM


class Longest(LM):
    def loglikelihood(self, requests):
        return [(float(len(request.args[1])), False) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [-1.0 for _ in requests]

    def generate_until(self, requests):
        return ["I'm sorry, 7" if request.doc["id"] % 4 else "7" for request in requests]
