"""The log of an execution: lines are cleaned, masked, numbered and stored, then told to whoever watches."""

from deployments.log.blocks import Block, lines_of
from deployments.log.lines import Line, NewLine, Origin
from deployments.log.reading import PAGE, all_lines, blocks_after, read_lines
from deployments.log.searching import Found, Wanted, search
from deployments.log.storing import append, compact, prepare, store
from deployments.log.telling import group_of, tell

__all__ = [
    "PAGE",
    "Block",
    "Found",
    "Line",
    "NewLine",
    "Origin",
    "Wanted",
    "all_lines",
    "append",
    "blocks_after",
    "compact",
    "group_of",
    "lines_of",
    "prepare",
    "read_lines",
    "search",
    "store",
    "tell",
]
