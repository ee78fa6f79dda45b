"""Builds the wheel of the delegate's program: `python deploy/delegate/build_wheel.py FOLDER`.

It needs only Python. Equal sources give equal bytes.
"""

import base64
import hashlib
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What the image has too: deploy/images/install.sh.
PARTS = ("aws", "guards", "delegates/__init__.py", "delegates/agent")
NAME = "slipway_delegate"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def list_sources() -> dict[str, bytes]:
    """Return the files of the program by path."""
    files = [
        file
        for part in PARTS
        for file in ([ROOT / part] if (ROOT / part).is_file() else sorted((ROOT / part).rglob("*")))
        if file.is_file() and "__pycache__" not in file.parts
    ]
    return {file.relative_to(ROOT).as_posix(): file.read_bytes() for file in files}


def build_metadata(version: str) -> dict[str, bytes]:
    """Return the files of the wheel's dist-info folder, without RECORD."""
    lines = (ROOT / "delegates/agent/requirements.in").read_text().splitlines()
    requirements = [line for line in lines if line and not line.startswith("#")]
    metadata = [
        *("Metadata-Version: 2.1", "Name: slipway-delegate", f"Version: {version}"),
        *("Summary: The delegate of Slipway", "Requires-Python: >=3.11"),
        *(f"Requires-Dist: {requirement}" for requirement in requirements),
    ]
    wheel = ["Wheel-Version: 1.0", "Generator: slipway", "Root-Is-Purelib: true", "Tag: py3-none-any"]
    scripts = ["[console_scripts]", "slipway-delegate = delegates.agent.__main__:run"]
    texts = {"METADATA": metadata, "WHEEL": wheel, "entry_points.txt": scripts}
    folder = f"{NAME}-{version}.dist-info"
    return {f"{folder}/{name}": ("\n".join(text) + "\n").encode() for name, text in texts.items()}


def build_wheel(folder: Path) -> Path:
    """Write the wheel into a folder, and return its path."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    files = list_sources() | build_metadata(version)
    record = f"{NAME}-{version}.dist-info/RECORD"
    rows = [f"{name},sha256={_hash(content)},{len(content)}\n" for name, content in files.items()]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return path


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    sys.stdout.write(f"{build_wheel(Path(sys.argv[1] if len(sys.argv) > 1 else 'dist'))}\n")
