"""Arguments of the agent's program: it answers them or refuses them, and starts with none."""

import pytest

from delegates.agent import VERSION
from delegates.agent.__main__ import parse_arguments


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
