"""Tables fit the terminal: what a reader came for stays, the rest goes in order of importance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from assay.show.fitted import FittedTable, Heading, without_middle

COLUMNS = [
    Heading("task", shrinks=True),
    Heading("shots", right=True, rank=2),
    Heading("metric", shrinks=True),
    Heading("value", right=True),
    Heading("± stderr", right=True),
    Heading("95 % interval", right=True, rank=1),
]


def example() -> FittedTable:
    table = FittedTable(COLUMNS, title="smollm2-135m")
    table.add(["capitals", "3", "acc", "0.5568", "± 0.0284", "[0.4969, 0.6095]"], "harmonic mean of 3")
    table.add(["  capitals_of_european_countries_in_english", "3", "acc", "0.9000", "± 0.0254", "[0.8391, 0.9395]"])
    table.add(
        ["  capitals_of_european_countries_in_german", "3", "exact_match", "0.0000", "± 0.0000", "[0.0000, 0.0261]"],
        "100% unparsed; 3 % truncated",
    )
    return table


def printed(table: FittedTable, width: int) -> list[str]:
    return [line.plain.rstrip() for line in table.lines(width)]


def test_at_200_columns_everything_stands_in_one_line() -> None:
    assert printed(example(), 200) == [
        "smollm2-135m",
        "task                                         shots  metric        value  ± stderr     95 % interval  notes",
        "─" * 129,
        "capitals                                         3  acc          0.5568  ± 0.0284  [0.4969, 0.6095]"
        "  harmonic mean of 3",
        "  capitals_of_european_countries_in_english      3  acc          0.9000  ± 0.0254  [0.8391, 0.9395]",
        "  capitals_of_european_countries_in_german       3  exact_match  0.0000  ± 0.0000  [0.0000, 0.0261]"
        "  100% unparsed; 3 % truncated",
    ]


def test_at_120_columns_notes_stand_under_their_rows() -> None:
    assert printed(example(), 120) == [
        "smollm2-135m",
        "task                                         shots  metric        value  ± stderr     95 % interval",
        "─" * 99,
        "capitals                                         3  acc          0.5568  ± 0.0284  [0.4969, 0.6095]",
        "    ↳ harmonic mean of 3",
        "  capitals_of_european_countries_in_english      3  acc          0.9000  ± 0.0254  [0.8391, 0.9395]",
        "  capitals_of_european_countries_in_german       3  exact_match  0.0000  ± 0.0000  [0.0000, 0.0261]",
        "    ↳ 100% unparsed; 3 % truncated",
    ]


def test_at_80_columns_the_interval_goes_before_a_name_is_cut() -> None:
    assert printed(example(), 80) == [
        "smollm2-135m",
        "task                                         metric        value  ± stderr",
        "─" * 74,
        "capitals                                     acc          0.5568  ± 0.0284",
        "    ↳ harmonic mean of 3",
        "  capitals_of_european_countries_in_english  acc          0.9000  ± 0.0254",
        "  capitals_of_european_countries_in_german   exact_match  0.0000  ± 0.0000",
        "    ↳ 100% unparsed; 3 % truncated",
    ]


def test_at_60_columns_names_lose_their_middle() -> None:
    assert printed(example(), 60) == [
        "smollm2-135m",
        "task                           metric        value  ± stderr",
        "─" * 60,
        "capitals                       acc          0.5568  ± 0.0284",
        "    ↳ harmonic mean of 3",
        " capitals_of_e…ies_in_english  acc          0.9000  ± 0.0254",
        " capitals_of_e…ries_in_german  exact_match  0.0000  ± 0.0000",
        "    ↳ 100% unparsed; 3 % truncated",
    ]


NOTES = st.lists(st.text("lmnop", min_size=1, max_size=15), max_size=8).map(" ".join)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@given(
    st.lists(
        st.tuples(st.text("abc_é漢", max_size=60), st.text("xyz", max_size=30), NOTES),
        min_size=1,
        max_size=6,
    )
)
def test_values_and_notes_are_there_at_every_width(width: int, rows: list[tuple[str, str, str]]) -> None:
    table = FittedTable(COLUMNS)
    for name, metric, note in rows:
        table.add([name, "5", metric, "0.1234", "± 0.0567", "[0.0000, 0.2345]"], note)
    lines = printed(table, width)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert text.count("0.1234") == text.count("± 0.0567") == len(rows)
    words = text.split()
    for *_, note in rows:
        assert set(note.split()) <= set(words)


def test_markup_and_wide_signs_of_a_name_do_no_harm() -> None:
    table = FittedTable([Heading("task", shrinks=True), Heading("value", right=True)])
    table.add(["[red]漢字漢字漢字漢字[/red]", "0.5"])
    assert printed(table, 40)[-1] == "[red]漢字漢字漢字漢字[/red]    0.5"
    assert all(cell_len(line) <= 20 for line in printed(table, 20))


def test_a_name_that_fits_is_left_alone() -> None:
    assert without_middle("arc_easy", 8) == "arc_easy"
    assert without_middle("arc_challenge", 8) == "arc_…nge"


def test_a_column_that_may_move_is_said_in_the_note() -> None:
    columns = [Heading("task", shrinks=True), Heading("docs now", right=True, rank=1, moves=True), Heading("value")]
    table = FittedTable(columns)
    table.add(["a_name_of_some_length", "120", "0.5"], "from two runs")
    table.add(["b", "", "0.5"])
    assert printed(table, 60)[2] == "a_name_of_some_length       120  0.5    from two runs"
    assert printed(table, 35)[2:] == [
        "a_name_of_some_length  0.5",
        "    ↳ docs now: 120; from two runs",
        "b                      0.5",
    ]


def test_a_title_is_wrapped_between_words_and_a_long_name_loses_its_middle() -> None:
    table = FittedTable([Heading("task")], title="A org/a-model-with-a-name-that-is-too-long dtype=float16")
    table.add(["x"])
    assert printed(table, 30)[:3] == ["A", "  org/a-model-w…at-is-too-long", "  dtype=float16"]


def test_a_line_is_drawn_where_a_section_begins() -> None:
    table = FittedTable([Heading("run"), Heading("tier")])
    table.section()
    table.add(["first", "1"])
    table.section()
    table.add(["second", "2"])
    assert printed(table, 40) == ["run     tier", "─" * 12, "first   1", "─" * 12, "second  2"]


def test_what_a_column_would_have_said_is_noted_where_it_had_to_go() -> None:
    table = FittedTable(COLUMNS)
    interval = "[0.3424, 1.0000]"
    table.add(["right", "0", "acc", "1.0000", "± 0.0000", interval], "mean of 2", keeps=["95 % interval"])
    assert printed(table, 80)[-1].endswith("± 0.0000  [0.3424, 1.0000]  mean of 2")
    assert printed(table, 50)[2:] == ["right  acc     1.0000  ± 0.0000  [0.3424, 1.0000]", "    ↳ mean of 2"], (
        "not twice"
    )
    assert printed(table, 40)[3:] == ["    ↳ 95 % interval: [0.3424, 1.0000];", "      mean of 2"]
