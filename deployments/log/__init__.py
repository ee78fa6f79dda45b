"""Log of an execution: redaction, numbering, storage and publishing of lines."""

from deployments.log.hidden import keep_hidden_lines, parse_hidden_lines
from deployments.log.lines import LineOrigin, LogBlock, LogLine, NewLogLine, list_block_lines
from deployments.log.queries import (
    PAGE_LINES,
    LineFilter,
    LineMatches,
    iterate_lines,
    list_blocks,
    read_lines,
    read_numbered_lines,
    search_for_page,
    search_lines,
)
from deployments.log.storage import (
    append_lines,
    compact_chunks,
    get_channel_group,
    prepare_lines,
    publish_log,
    store_lines,
)

__all__ = [
    "LineFilter",
    "LineMatches",
    "LineOrigin",
    "LogBlock",
    "LogLine",
    "NewLogLine",
    "PAGE_LINES",
    "append_lines",
    "compact_chunks",
    "get_channel_group",
    "iterate_lines",
    "keep_hidden_lines",
    "list_block_lines",
    "list_blocks",
    "parse_hidden_lines",
    "prepare_lines",
    "publish_log",
    "read_lines",
    "read_numbered_lines",
    "search_for_page",
    "search_lines",
    "store_lines",
]
