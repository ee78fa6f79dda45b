"""The log of an execution: lines are cleaned, masked, numbered and stored, then told to whoever watches."""

from deployments.log.blocks import Block
from deployments.log.lines import Line, NewLine, Origin
from deployments.log.masks import Mask
from deployments.log.output import Output
from deployments.log.reading import PAGE, all_lines, blocks_after, read_lines
from deployments.log.storing import compact, store
from deployments.log.telling import group_of, tell

__all__ = [
    "PAGE",
    "Block",
    "Line",
    "Mask",
    "NewLine",
    "Origin",
    "Output",
    "all_lines",
    "blocks_after",
    "compact",
    "group_of",
    "read_lines",
    "store",
    "tell",
]
