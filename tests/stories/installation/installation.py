"""An installation as plain processes: two web, two workers, beat, nginx, PostgreSQL and Valkey."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from ops.supervision.child_process import build_death_signal_hook
from ops.supervision.valkey import find_server
from sandbox.process import SandboxProcess
from tests.delegates.agent.certificates import make_certificates
from tests.fixtures.processes import ROOT, wait_until
from tests.ports import free_port
from tests.postgres import postgres
from tests.wiring import production_environment

ROLE = ROOT / "ops" / "role.sh"
MANUAL = ROOT / "docs" / "how-to" / "run-in-production.md"
HOST = "slipway.example.com"
API_KEY = "slp_pat_of_the_installation_in_the_tests_0000000"
SEED_DEMO = """
import json, sys
import django
django.setup()
from django.conf import settings
from ops.demo.seed import seed_demo
from ops.demo.pipelines import SandboxFacts
facts = json.load(sys.stdin)
settings.SANDBOX_URL = facts.pop("url")
seed_demo(SandboxFacts.from_wire(facts))
"""
START_SECONDS = 90


@dataclass
class Installation:
    """Running processes by name; `web_ports` and `metrics_ports` are where they listen on loopback."""

    folder: Path
    authority: Path
    environment: Mapping[str, str]
    proxy_port: int
    web_ports: dict[str, int]
    metrics_ports: dict[str, int]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start `web-1`, `worker-2` or `beat`; a web process is alive on return."""
        variables = {"PORT": str(self.web_ports[name])} if name in self.web_ports else {}
        if port := self.metrics_ports.get(name):
            variables["SLIPWAY_WORKER_METRICS_PORT"] = str(port)
        self.run(name, [str(ROLE), name.partition("-")[0]], variables)
        if name in self.web_ports:
            wait_until(lambda: self.probe(name, "healthz") == 200, f"the start of {name}", START_SECONDS)

    def run(self, name: str, command: list[str], variables: Mapping[str, str]) -> None:
        """Run a program in a group of its own, with its output in a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**self.environment, **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=build_death_signal_hook(os.getpid(), signal.SIGKILL),
            )

    def kill(self, name: str) -> None:
        """End a process and its children at once, as when a machine is lost."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, name: str) -> None:
        """End a process as ECS does for an update: SIGTERM, and SIGKILL 40 seconds later."""
        self.processes[name].terminate()
        with suppress(subprocess.TimeoutExpired):
            self.processes[name].wait(40)
        self.kill(name)

    def probe(self, name: str, path: str = "readyz") -> int:
        """Ask a web process as a load balancer does, by its address; 0 without an answer."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.web_ports[name]}/{path}", timeout=5).status_code
        except httpx.HTTPError:
            return 0

    def manage(self, *arguments: str) -> None:
        subprocess.run([ROLE, "manage", *arguments], cwd=ROOT, env=self.environment, check=True, timeout=120)

    def seed_demo(self, sandbox: SandboxProcess) -> None:
        """Create the demo, whose connector calls a sandbox."""
        facts = json.dumps({**sandbox.seed(), "url": sandbox.url})
        environment = {**self.environment, "DJANGO_SETTINGS_MODULE": "config.settings"}
        command = [sys.executable, "-c", SEED_DEMO]
        subprocess.run(command, cwd=ROOT, env=environment, input=facts, text=True, check=True, timeout=120)

    @contextmanager
    def open_client(self) -> Iterator[httpx.Client]:
        """Open a client of the API through the proxy."""
        context = ssl.create_default_context(cafile=str(self.authority))
        headers = {"X-Api-Key": API_KEY, "Host": HOST}
        url = f"https://localhost:{self.proxy_port}/api/v1"
        with httpx.Client(base_url=url, verify=context, headers=headers, timeout=30) as client:
            yield client


@contextmanager
def start_installation(
    folder: Path, sandbox: SandboxProcess, variables: Mapping[str, str]
) -> Iterator[Installation]:
    """Start everything, with the demo in it; ends everything with the block."""
    with ExitStack() as stack:
        database = stack.enter_context(postgres(folder))
        _create_database(database.port)
        broker_port = free_port()
        environment = {
            **os.environ,
            **production_environment(),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DATABASE_URL": database.url,
            "REDIS_URL": f"redis://127.0.0.1:{broker_port}",
            "PUBLIC_URL": f"https://{HOST}",
            "SLIPWAY_HOME": str(folder / "home"),
            "SLIPWAY_ALLOW_AWS_ENDPOINTS": "true",
            "SLIPWAY_PRIVATE_NETWORKS": "127.0.0.1/32",
            "SLIPWAY_DELEGATE_IMAGE": "slipway-delegate:0.1.0",
            "SLIPWAY_DEMO_API_KEY": API_KEY,
            "HOST": "127.0.0.1",
            "TMPDIR": str(folder),
            **variables,
        }
        certificates = make_certificates(folder)
        installation = Installation(
            folder,
            certificates.authority,
            environment,
            free_port(),
            {name: free_port() for name in ("web-1", "web-2")},
            {name: free_port() for name in ("worker-1", "worker-2")},
        )
        stack.callback(_end_all, installation)
        valkey = [str(find_server()), "--save", "", "--bind", "127.0.0.1", "--port", str(broker_port)]
        installation.run("valkey", [*valkey, "--dir", str(folder)], {})
        installation.manage("migrate", "--no-input")
        installation.manage("collectstatic", "--no-input", "--verbosity", "0")
        installation.seed_demo(sandbox)
        installation.run("nginx", _configure_nginx(installation, certificates.server), {})
        for name in (*installation.web_ports, *installation.metrics_ports, "beat"):
            installation.start(name)
        for name in installation.web_ports:
            wait_until(
                lambda name=name: installation.probe(name) == 200, f"readiness of {name}", START_SECONDS
            )
        yield installation


def _create_database(port: int) -> None:
    with psycopg.connect(f"host=127.0.0.1 port={port} user=slipway dbname=postgres", autocommit=True) as link:
        link.execute("CREATE DATABASE slipway")


def _end_all(installation: Installation) -> None:
    for name in list(installation.processes):
        installation.kill(name)


def _configure_nginx(installation: Installation, certificate: Path) -> list[str]:
    """Write the configuration of the manual, with the addresses of this installation; return the command."""
    sample = re.search(r"### nginx\n\n```nginx\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert sample is not None
    folder, text = installation.folder, sample[1]
    options = "max_fails=0"
    servers = " ".join(f"server 127.0.0.1:{port} {options};" for port in installation.web_ports.values())
    for documented, actual in (
        (f"server 127.0.0.1:8000 {options};", servers),
        ("listen 443 ssl", f"listen 127.0.0.1:{installation.proxy_port} ssl"),
        ("/etc/ssl/slipway.pem", str(certificate)),
        ("/etc/ssl/slipway.key", str(certificate)),
    ):
        assert text.count(documented) == 1, documented
        text = text.replace(documented, actual)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}{text}}}\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def run_prometheus(installation: Installation) -> int:
    """Start a Prometheus that scrapes every process; returns its port."""
    folder, port = installation.folder, free_port()
    ports = (*installation.web_ports.values(), *installation.metrics_ports.values())
    targets = [f"127.0.0.1:{number}" for number in ports]
    config: dict[str, Any] = {
        "global": {"scrape_interval": "1s"},
        "rule_files": [str(ROOT / "deploy" / "prometheus" / "alerts.yml")],
        "scrape_configs": [{"job_name": "slipway", "static_configs": [{"targets": targets}]}],
    }
    # JSON is YAML.
    (folder / "prometheus.yml").write_text(json.dumps(config))
    options = (
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/prometheus",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    installation.run("prometheus", ["prometheus", *options], {})
    wait_until(lambda: _is_ready(port), "the start of Prometheus", 30)
    return port


def _is_ready(port: int) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/-/ready").status_code == 200
    return False


def query_prometheus(port: int, query: str) -> dict[str, float]:
    """Return the values of an instant query by what tells them apart."""
    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/query", params={"query": query}).json()
    return {
        ",".join(value for key, value in sorted(row["metric"].items()) if key != "__name__"): float(
            row["value"][1]
        )
        for row in answer["data"]["result"]
    }
