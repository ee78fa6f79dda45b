"""Ctrl-C in `manage.py acceptance` cancels the run, and the command waits until workers have cleaned up."""

import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from ops.acceptance.runs import advance_run
from ops.management.commands import acceptance
from ops.models import AcceptanceRun
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
CTRL_C_AFTER = 6


@pytest.fixture
def _signal_handlers() -> Iterator[None]:
    """Restore what the command sets."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signal_handlers")
def test_ctrl_c_cancels_the_run_and_waits_for_its_cleanup(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = 0

    def let_workers_work(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == CTRL_C_AFTER:
            raise KeyboardInterrupt
        drive.pass_time(5)
        advance_run(AcceptanceRun.objects.get().pk, drive.clock.now())

    monkeypatch.setattr(acceptance.time, "sleep", let_workers_work)
    seed, output = drive.sandbox.seed(), io.StringIO()
    options = {"subnets": ",".join(seed["subnets"]), "security_groups": seed["security_group"], "yes": True}
    with pytest.raises(SystemExit):
        call_command(
            "acceptance",
            stdout=output,
            connector="sandbox_aws",
            cluster=seed["cluster"],
            report=tmp_path / "report",
            **options,
        )

    text = output.getvalue()
    assert "The first deployment of a service …" in text
    assert "Interrupted. A worker deletes what the run created …" in text
    run = AcceptanceRun.objects.get()
    assert (run.status, run.left) == ("ABORTED", [])
    assert drive.call("ecs", "ListServices", {"cluster": "demo"})["serviceArns"] == []
    assert json.loads((tmp_path / "report.json").read_text())["is_complete"] is False
    assert "NOT complete" in (tmp_path / "report.md").read_text()
