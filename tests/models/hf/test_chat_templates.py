"""A chat template is a program of whoever made the model: one that has no end fails the run with a message."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from assay.errors import ModelError
from assay.models import chat_templates
from assay.models.hf.tokenization import ChatFormatter
from assay.models.openai.tokens import HFEncoder

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
DOUBLED = "{% set ns = namespace(v=[1, 1]) %}" + "{% set ns.v = [ns.v, ns.v] %}" * 60
ENDLESS = {
    "loops": LOOPS,
    "doubled and printed": DOUBLED + "{{ ns.v }}",
    "long text": "{{ 'x' * 30_000_000 }}",
    "endless text": "{{ 'x' * (10 ** 15) }}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_templates, "SECONDS", 0.3)


@pytest.mark.parametrize("template", ENDLESS.values(), ids=ENDLESS)
def test_a_chat_template_without_end_is_an_error(tokenizer: PreTrainedTokenizerFast, template: str) -> None:
    with pytest.raises(ModelError, match="chat template"):
        ChatFormatter(tokenizer, template, {}).apply(MESSAGES, True)


def test_one_of_a_server_s_tokenizer_too(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(LOOPS)
    encoder = HFEncoder(str(tmp_path), revision=None, trust_remote_code=False, add_bos_token=False)
    with pytest.raises(ModelError, match="ran for more than"):
        encoder.apply_chat_template(MESSAGES, True)


def test_in_another_thread_too(tokenizer: PreTrainedTokenizerFast) -> None:
    found: list[BaseException] = []

    def render() -> None:
        try:
            ChatFormatter(tokenizer, LOOPS, {}).apply(MESSAGES, True)
        except ModelError as error:
            found.append(error)

    thread = threading.Thread(target=render, daemon=True)
    thread.start()
    thread.join(30)
    assert "ran for more than" in str(found[0])


def test_an_ordinary_template_is_rendered_as_before(tokenizer: PreTrainedTokenizerFast) -> None:
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    assert ChatFormatter(tokenizer, template, {}).apply(MESSAGES, True) == "<system>Be brief.<user>Hello<assistant>"
