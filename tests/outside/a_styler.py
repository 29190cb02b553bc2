"""Questions as riddles."""

from dataclasses import dataclass

from assay.tasks import ClozeStyle


@dataclass(frozen=True)
class Riddle(ClozeStyle):
    def get_question_text(self, raw_question):
        return f"Riddle: {raw_question}"

    def get_cue_text(self):
        return "Solution:"
