"""A doc on its way through a run: its requests, what was sent so far, and what an earlier run stored of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.instance import Instance, Response
from assay.request_types import REQUEST_TYPES
from assay.results import kept_arguments, unpack_responses
from assay.store import join_digests
from assay.tasks import DocRequests


def restored(request_type: str, response: Response) -> Response:
    """A response as a file gave it back, its answer of the type that the model gave: JSON knows no tuples."""
    answer = response.answer
    if (
        answer is None
        or type(answer) is str
        or (type(answer) is tuple and len(answer) == 2 and type(answer[1]) is bool)
    ):
        return response  # texts and loglikelihoods, which are most, need nothing
    return response._replace(answer=REQUEST_TYPES[request_type].plain(answer))


class StoredDoc(NamedTuple):
    """One doc as its sample row has it; texts are JSON. A named tuple because there is one for every row."""

    doc_hash: str
    request_hash: str
    doc: str
    arguments: str
    resps: str
    stops: str | None
    tokens: str | None
    extras: str | None
    failure: str | None
    """Why there is no answer, where a request failed; older files do not say."""

    def give_answers(self, instances: Sequence[Instance]) -> bool:
        """Answer these requests of the doc with what was stored. False where there were fewer requests then.

        A request that failed was stored with null for an answer, and is a failed request again.
        """
        stored = unpack_responses(self.resps, self.stops, self.tokens, self.extras)
        for instance in instances:
            if instance.idx >= len(stored):
                return False
            responses = [restored(instance.request_type, response) for response in stored[instance.idx]]
            instance.resps = [response.answer for response in responses]
            instance.responses = [*responses]
            if not responses or None in instance.resps:
                instance.failure = self.failure or "the request failed"
        return True

    def give_arguments(self, instances: Sequence[Instance]) -> None:
        """The requests as they were sent."""
        stored: list[list[Any]] = kept_arguments(self.arguments)
        for instance in instances:
            instance.arguments = tuple(stored[instance.idx])


@dataclass(slots=True)
class DocWork:
    """One doc of one task on its way through a run."""

    task: str
    requests: DocRequests
    round: list[Instance] = field(default_factory=list)
    """The requests of the present round: at first all of them, later those that answers gave rise to."""
    digests: list[bytes] = field(default_factory=list)
    """What was sent so far, hashed, in the order of `requests.instances`."""
    pending: int = 0
    of: DocWork | None = None
    """The doc, where this is one draw of it with rounds of its own."""
    draws: list[DocWork] = field(default_factory=list)
    """The other way round; `pending` then counts those that are not over."""
    stored: StoredDoc | None = None
    """What an earlier run stored of the doc, where the answers are that run's."""

    def __post_init__(self) -> None:
        self.round = self.round or self.requests.instances

    @property
    def request_hash(self) -> str:
        """Over all requests of the doc: equal hashes mean equal prompts and settings."""
        return join_digests(self.digests) if self.stored is None else self.stored.request_hash

    def begin_round(self, requests: list[Instance]) -> None:
        """Further requests that the answers so far gave rise to; none ends the doc."""
        for instance in requests:
            instance.idx = len(self.requests.instances)
            instance.doc_id, instance.task_name = self.requests.doc_id, self.task
            self.requests.instances.append(instance)
        self.round = requests

    @property
    def is_first_round(self) -> bool:
        return self.round is self.requests.instances

    @property
    def is_answered(self) -> bool:
        return all(instance.resps and instance.failure is None for instance in self.requests.instances)
