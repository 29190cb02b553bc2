"""Text with fields to text: Jinja in a sandbox, with limits on what one template may make."""

from assay.templates.render import Template, answer_key_to_index, compile_template, get_n_letters

__all__ = ["Template", "answer_key_to_index", "compile_template", "get_n_letters"]
