"""The log of an agent as it sent it: lines by their numbers, the newest where nothing is asked for."""

from dataclasses import dataclass

from delegates.models import DelegateInstance, DelegateLogChunk

MOST_LINES = 500


@dataclass(frozen=True)
class LogPart:
    """Lines of one instance's log; `first` is the number of the first, `next` what to ask for afterwards."""

    instance: int | None
    first: int
    next: int
    lines: tuple[str, ...]


def log_of(instance: DelegateInstance | None, after: int | None = None) -> LogPart:
    """At most 500 lines from number `after` on, or the last ones that there are."""
    if instance is None:
        return LogPart(None, 0, 0, ())
    chunks = DelegateLogChunk.objects.filter(instance=instance)
    last = chunks.order_by("-sequence").first()
    end = last.sequence + last.count if last else 0
    begin = max(0, end - MOST_LINES) if after is None else after
    lines: list[tuple[int, str]] = []
    # The chunk before the first line that is asked for may hold it.
    before = chunks.filter(sequence__lt=begin).order_by("-sequence").values("sequence")[:1]
    start = next(iter(before), {"sequence": begin})["sequence"]
    for chunk in chunks.filter(sequence__gte=start).order_by("sequence").iterator(chunk_size=20):
        numbered = enumerate(chunk.text.split("\n"), chunk.sequence)
        lines += [(number, text) for number, text in numbered if number >= begin]
        if len(lines) >= MOST_LINES:
            break
    kept = lines[:MOST_LINES]
    first = kept[0][0] if kept else begin
    return LogPart(
        instance.pk, first, kept[-1][0] + 1 if kept else max(begin, end), tuple(text for _, text in kept)
    )
