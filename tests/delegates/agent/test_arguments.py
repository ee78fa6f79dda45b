"""Arguments of the agent's program: it answers them or refuses them, and starts with none."""

import os
import subprocess
from pathlib import Path

import pytest

from delegates.agent import VERSION
from delegates.agent.__main__ import parse_arguments
from tests.fixtures.processes import ROOT


def test_the_version_and_a_summary_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for argument, text in (("--version", f"slipway-delegate {VERSION}"), ("--help", "Environment variables")):
        with pytest.raises(SystemExit) as ended:
            parse_arguments([argument])
        assert ended.value.code == 0
        assert text in capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--token=slp_dlt_x", "start", "--vers", "-h2"])
def test_an_unknown_argument_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments([argument])
    assert ended.value.code == 2
    assert "slipway-delegate" in capsys.readouterr().err


def test_without_arguments_the_agent_starts() -> None:
    assert parse_arguments([]) == ""
    assert parse_arguments(["doctor"]) == "doctor"


@pytest.mark.parametrize(
    ("set_by_operator", "used"),
    [("", "glibc.malloc.tcache_count=0"), ("glibc.malloc.check=3", "glibc.malloc.check=3")],
)
def test_the_program_lets_no_thread_keep_freed_memory(
    set_by_operator: str, used: str, tmp_path: Path
) -> None:
    (tmp_path / "slipway-delegate").symlink_to(ROOT / "ops" / "slipway-delegate")
    (tmp_path / "python").write_text('#!/bin/sh\necho "$GLIBC_TUNABLES $*"\n')
    (tmp_path / "python").chmod(0o755)
    result = subprocess.run(
        [tmp_path / "slipway-delegate", "doctor"],
        env={"PATH": os.defpath, "GLIBC_TUNABLES": set_by_operator},
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout == f"{used} -m delegates.agent doctor\n"
