"""Text with fields to text: Jinja in a sandbox, with limits on what one template may make."""

from assay.templates.labels import answer_key_to_index, get_n_letters
from assay.templates.render import Template, compile_template

__all__ = ["Template", "answer_key_to_index", "compile_template", "get_n_letters"]
