"""Text with fields to text: Jinja in a sandbox, with limits on what one template may make."""

from assay.templates.render import Template, compile_template

__all__ = ["Template", "compile_template"]
