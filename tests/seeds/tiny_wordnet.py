"""A dictionary of a few words in the format of WordNet's own files, as nltk reads them."""

from __future__ import annotations

from pathlib import Path

MEANINGS = [
    # (how often it is meant, words); the first word is the one whose count it is.
    (0, ["car", "cable_car"]),
    (71, ["car", "auto", "motorcar"]),
    (5, ["doctor", "physician", "Dr."]),
    (0, ["Washington", "was"]),
    (9, ["sun"]),
]
FILES = ["cntlist.rev", "lexnames", "index.sense"]
FILES += [f"{kind}.{pos}" for kind in ("index", "data") for pos in ("adj", "adv", "noun", "verb")]
FILES += [f"{pos}.exc" for pos in ("adj", "adv", "noun", "verb")]


def write_wordnet(folder: Path) -> None:
    """Lines of `data.noun` name their own place in the file, and those of the index point at them."""
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text("")
    (folder / "data.adj").write_text("  1 WordNet 3.0 Copyright  \n")
    (folder / "lexnames").write_text("".join(f"{i:02} noun.thing{i} 1\n" for i in range(45)))
    data, senses, counts = "", dict[str, list[int]](), list[str]()
    for often, words in MEANINGS:
        offset = len(data)
        listed = " ".join(f"{word} {len(senses.get(word.lower(), []))}" for word in words)
        data += f"{offset:08} 06 n {len(words):02x} {listed} 000 | something  \n"
        for word in words:
            senses.setdefault(word.lower(), []).append(offset)
        number = len(senses[words[0].lower()])
        counts += [f"{words[0].lower()}%1:06:{number - 1:02}:: {number} {often}\n"] if often else []
    (folder / "data.noun").write_text(data)
    (folder / "index.noun").write_text(
        "".join(
            f"{word} n {len(found)} 0 {len(found)} 0 {' '.join(f'{offset:08}' for offset in found)}  \n"
            for word, found in sorted(senses.items())
        )
    )
    (folder / "cntlist.rev").write_text("".join(sorted(counts)))
