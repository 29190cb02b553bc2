"""What the clients of `servers.py` ask. Apart from the stub, because lm-evaluation-harness has no orjson."""

WORD = "word"


def prompt_of(number: int, tokens: int) -> str:
    """The context of a question: its number, and as many equal words as make `tokens` tokens of it.

    >>> prompt_of(7, 3)
    '00000007 word word'
    """
    return f"{number:08}" + f" {WORD}" * (tokens - 1)
