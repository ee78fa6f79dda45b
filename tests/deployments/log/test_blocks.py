"""Blocks: what is stored comes back as it was, in pieces that fit into a frame."""

from hypothesis import given
from hypothesis import strategies as st

from deployments.log.lines import (
    MOST_BLOCK_BYTES,
    BlockEntry,
    compress,
    decode_block,
    decompress,
    encode_blocks,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
KINDS = st.tuples(st.sampled_from(["a", "b"]), TEXTS, st.sampled_from(["info", "error"]), st.just("slipway"))
ENTRIES = st.lists(st.builds(BlockEntry, st.integers(0, 2**52), KINDS, TEXTS), min_size=1, max_size=50)


@given(ENTRIES, st.integers(1, 2**40))
def test_what_goes_in_comes_out(entries: list[BlockEntry], first: int):
    blocks = encode_blocks(first, entries)
    assert [entry for block in blocks for entry in decode_block(decompress(compress(block)))] == entries
    assert blocks[0].first == first
    assert sum(block.count for block in blocks) == len(entries)


def test_a_block_holds_a_thousand_lines_at_most():
    entries = [BlockEntry(0, ("s", "u", "info", "slipway"), "x")] * 2500
    assert [(block.first, block.last) for block in encode_blocks(1, entries)] == [
        (1, 1000),
        (1001, 2000),
        (2001, 2500),
    ]


def test_a_block_of_long_lines_stays_below_its_size_in_bytes():
    entries = [BlockEntry(0, ("s", "u", "info", "slipway"), '"é\U0001f600' * 500)] * 100
    blocks = encode_blocks(1, entries)
    assert len(blocks) > 5
    assert max(len(block.body.encode()) for block in blocks) < MOST_BLOCK_BYTES + 500
    assert [(block.last + 1) for block in blocks[:-1]] == [block.first for block in blocks[1:]]
