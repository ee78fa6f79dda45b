"""Figures of ended measurements in a file, so that a run of two hours can be continued."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from benchmarks.goals import Figure


class UnreadableFigures(ValueError):
    """The file is not one of figures; the text says which, and what to do."""


@dataclass(frozen=True)
class KeptMeasurement:
    """Figures of one measurement, with its end in UTC and the commit that it measured."""

    at: str
    commit: str
    figures: tuple[Figure, ...]

    def __str__(self) -> str:
        return f"measured at {self.at[:16]} UTC on {self.commit or 'an unknown commit'}"


@dataclass
class KeptFigures:
    """Ended measurements by name, in `path` or, without one, in memory only."""

    path: Path | None
    measurements: dict[str, KeptMeasurement] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Self:
        """Read the file; one that does not exist yet has no measurements. Raises `UnreadableFigures`."""
        if path is None or not path.exists():
            return cls(path)
        try:
            rows = json.loads(path.read_text())
            kept = {
                name: KeptMeasurement(
                    row["at"], row["commit"], tuple(Figure(**figure) for figure in row["figures"])
                )
                for name, row in rows.items()
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreadableFigures(
                f"{path} has no figures of measurements ({error}). Delete it, or name another file."
            ) from error
        return cls(path, kept)

    def keep(self, name: str, figures: Sequence[Figure]) -> None:
        """Add a measurement that has ended now, and write the file."""
        at = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
        self.measurements[name] = KeptMeasurement(at, _read_commit(), tuple(figures))
        if self.path is not None:
            text = json.dumps({key: asdict(kept) for key, kept in self.measurements.items()}, indent=1)
            new = self.path.with_name(f"{self.path.name}.new")
            new.write_text(f"{text}\n")
            new.replace(self.path)

    def list_figures(self) -> Iterator[Figure]:
        """Yield the figures of all measurements."""
        for kept in self.measurements.values():
            yield from kept.figures


def _read_commit() -> str:
    """Return the commit's short name, with a plus sign if files were changed since; empty without Git."""
    commit = _ask_git("rev-parse", "--short", "HEAD")
    return f"{commit}+" if commit and _ask_git("status", "--porcelain", "--untracked-files=no") else commit


def _ask_git(*command: str) -> str:
    try:
        answer = subprocess.run(["git", *command], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
