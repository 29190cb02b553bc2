"""Which of some candidates does the model find likeliest?"""

from assay.instance import Instance
from assay.request_types import RequestType


def likeliest(lm, instances):
    answers = []
    for instance in instances:
        context, candidates = instance.args
        scored = lm.loglikelihood([Instance("loglikelihood", {}, (context, each), 0) for each in candidates])
        answers.append(max(zip(scored, candidates))[1])
    return answers


LIKELIEST = RequestType(
    "likeliest",
    ("context", "candidates"),
    plain=str,
    needs=("likelihoods",),
    answer=likeliest,
    build=lambda doc, context: (context, tuple(doc["choices"])),
    metrics=("exact_match",),
)
