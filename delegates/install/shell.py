"""Files and commands of a delegate as a systemd service on a machine, from a Python wheel."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from delegates.agent import VERSION
from delegates.install.containers import get_memory, get_stop_seconds
from delegates.install.documents import list_environment_variables
from delegates.install.plan import SpecPlan
from delegates.install.specs import TOKEN_FILE, ShellCommand

ENVIRONMENT_FILE: Final = "delegate.env"
UNIT_FILE: Final = "slipway-delegate.service"
INSTALL_FILE: Final = "install.sh"
WHEEL: Final = f"slipway_delegate-{VERSION}-py3-none-any.whl"
HOME: Final = "/var/lib/slipway-delegate"
CONFIGURATION: Final = "/etc/slipway-delegate"
_SCRIPT: Final = (Path(__file__).parent / "install_delegate.sh").read_text(encoding="utf-8")
_UNIT: Final = """\
[Unit]
Description=Slipway delegate
After=network-online.target
Wants=network-online.target

[Service]
User=slipway-delegate
WorkingDirectory={home}
EnvironmentFile={configuration}/{environment_file}
ExecStart=/opt/slipway-delegate/bin/slipway-delegate
Restart=always
RestartSec=5
# The agent finishes its tasks after SIGTERM; it ends their processes itself.
KillMode=mixed
TimeoutStopSec={stop_seconds}
MemoryMax={memory}M
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=yes
ReadWritePaths={home}

[Install]
WantedBy=multi-user.target
"""


def build_shell_files(plan: SpecPlan) -> dict[str, str]:
    """Return environment, token, unit and install script."""
    unit = _UNIT.format(
        home=HOME,
        configuration=CONFIGURATION,
        environment_file=ENVIRONMENT_FILE,
        stop_seconds=get_stop_seconds(plan),
        memory=get_memory(plan),
    )
    return {
        ENVIRONMENT_FILE: render_environment_file(plan),
        TOKEN_FILE: plan.token,
        UNIT_FILE: unit,
        INSTALL_FILE: _SCRIPT,
    }


def render_environment_file(plan: SpecPlan) -> str:
    """Return the variables as systemd and a shell read them alike."""
    variables = [
        *list_environment_variables(plan),
        ("DELEGATE_TYPE", "SHELL_SCRIPT"),
        ("HARNESS_TOKEN_FILE", f"{CONFIGURATION}/{TOKEN_FILE}"),
        ("SLIPWAY_DELEGATE_HOME", HOME),
    ]
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables)


def list_shell_commands(plan: SpecPlan) -> Iterator[ShellCommand]:
    """Return the commands to build the wheel, install, inspect and upgrade the service."""
    install = shlex.join(["sudo", "sh", INSTALL_FILE, WHEEL])
    yield ShellCommand("Build the wheel in a checkout of Slipway, and copy it here", "make delegate-wheel")
    yield ShellCommand("Install and start the service", install)
    yield ShellCommand("Check that it runs", "systemctl status slipway-delegate", "verify")
    yield ShellCommand("Install the new wheel and restart the service", install, "update")
    log = "journalctl --unit slipway-delegate --lines 100 --no-pager"
    yield ShellCommand("Read the delegate's log", log, "diagnose")
