"""Output: however a program's output is cut into reads, its lines and secrets stay whole."""

from hypothesis import given
from hypothesis import strategies as st

from guards.masks import MaskedLineReader, SecretMask
from guards.text import MAX_LINE_BYTES


def read(output: MaskedLineReader, pieces: list[bytes]) -> list[str]:
    return [line for piece in pieces for line in output.feed(piece)] + output.end()


def split_at(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in zip(edges, edges[1:], strict=False)]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]))), st.lists(st.integers(0, 10_000)))
def test_lines_are_the_same_however_they_arrive(lines: list[str], places: list[int]):
    data = "".join(f"{line}\n" for line in lines).encode()
    assert read(MaskedLineReader(), split_at(data, places)) == lines


def test_ends_of_lines_of_all_kinds_are_taken_off():
    assert read(MaskedLineReader(), [b"one\r\ntwo\r", b"\nthree\nfour"]) == ["one", "two", "three", "four"]


def test_what_is_not_utf_8_is_marked_and_the_rest_is_kept():
    assert read(MaskedLineReader(), [b"a\xff\xfeb\n", b"\xe2\x82", b"\xac\n"]) == ["a\ufffd\ufffdb", "\u20ac"]


def test_a_line_without_an_end_takes_little_memory():
    output = MaskedLineReader()
    for _ in range(1000):
        assert all(len(line) == MAX_LINE_BYTES for line in output.feed(b"x" * 10_000))
        assert len(output._pending) <= MAX_LINE_BYTES


@given(st.integers(0, 60), st.lists(st.integers(0, 60_000), max_size=8))
def test_a_secret_on_the_border_of_two_pieces_is_hidden(shift: int, places: list[int]):
    secret = "wonderful-secret-value"
    mask = SecretMask([secret])
    data = b"x" * (MAX_LINE_BYTES - 40 + shift) + secret.encode() + b"y" * MAX_LINE_BYTES + b"\n"
    masked_pieces = [mask.mask_text(line) for line in read(MaskedLineReader(mask), split_at(data, places))]
    assert "wonderful" not in "".join(masked_pieces)
    assert "value" not in "".join(masked_pieces)
    assert "•••" in "".join(masked_pieces)
