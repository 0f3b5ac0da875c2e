"""Hosts of their own on this machine: network namespaces on one bridge, with names and certificates.

Nothing that is sent there leaves them. It takes root and the commands `ip` and `unshare`; where namespaces are not
allowed, `allowed` says so.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NETWORK = "10.213.7"
DOMAIN = "example"
NEW_KEY = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256"


def _ip(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(("ip", *words), check=True, capture_output=True)


def allowed() -> bool:
    """Whether hosts can be made here."""
    if os.name != "posix" or os.geteuid() or not (shutil.which("ip") and shutil.which("unshare")):
        return False
    probe = f"croupier-{os.getpid()}-probe"
    try:
        _ip("netns", "add", probe)
        _ip("-n", probe, "link", "add", "br0", "type", "bridge")
    except subprocess.CalledProcessError:
        return False
    finally:
        subprocess.run(("ip", "netns", "del", probe), check=False, capture_output=True)
    return True


class Hosts:
    """Named hosts that reach each other as `NAME.example`, each with a directory, variables and what runs on it."""

    def __init__(self, directory: Path, *names: str, binaries: Path | None = None) -> None:
        self.directory, self.names = directory, names
        self.variables: dict[str, dict[str, str]] = {name: {} for name in names}
        self._prefix = f"croupier-{os.getpid()}"
        self._path = f"{binaries or Path(sys.executable).parent}:{os.environ['PATH']}"
        self._running: list[subprocess.Popen[bytes]] = []
        self._make_network()
        self._make_certificates()

    def _space(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def home(self, name: str) -> Path:
        return self.directory / name

    def _make_network(self) -> None:
        switch = self._space("switch")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        lines = ["127.0.0.1 localhost"]
        for number, name in enumerate(self.names, start=1):
            space = self._space(name)
            _ip("netns", "add", space)
            _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", f"v{number}", "netns", switch)
            _ip("-n", switch, "link", "set", f"v{number}", "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", space, "link", "set", device, "up")
            lines.append(f"{NETWORK}.{number} {name}.{DOMAIN}")
            self.home(name).mkdir(parents=True)
        (self.directory / "hosts").write_text("\n".join(lines) + "\n")

    def _make_certificates(self) -> None:
        """A private authority, and for each host a certificate of it, as the example wants them."""
        self.authority, key = self.directory / "authority.pem", self.directory / "authority.key"
        _openssl(f"req -x509 {NEW_KEY} -days 2 -subj /CN=authority -keyout {key} -out {self.authority}")
        for name in self.names:
            host, home = f"{name}.{DOMAIN}", self.home(name) / "tls"
            home.mkdir()
            asked, made = home / "asked.pem", home / "certificate.pem"
            named = f"-subj /CN={host} -addext subjectAltName=DNS:{host}"
            _openssl(f"req {NEW_KEY} {named} -keyout {home / 'key.pem'} -out {asked}")
            signer = f"-CA {self.authority} -CAkey {key}"
            _openssl(f"x509 -req -days 2 -copy_extensions copy -in {asked} {signer} -out {made}")
            (home / "key.pem").chmod(0o600)
            # The second is what `curl` looks at.
            for variable in ("SSL_CERT_FILE", "CURL_CA_BUNDLE"):
                self.variables[name][variable] = str(self.authority)

    def _command(self, name: str, line: str) -> dict[str, Any]:
        mounted = (
            f"mount --bind {shlex.quote(str(self.directory / 'hosts'))} /etc/hosts && exec sh -c {shlex.quote(line)}"
        )
        words = ["ip", "netns", "exec", self._space(name), "unshare", "--mount", "sh", "-ec", mounted]
        variables = {"PATH": self._path, "HOME": str(self.home(name)), "LANG": "C.UTF-8"} | self.variables[name]
        return {"args": words, "env": variables, "cwd": self.home(name)}

    def run(self, name: str, line: str, within: float = 120.0) -> str:
        """What a command prints on a host; one that fails is an error with what it said."""
        done = subprocess.run(**self._command(name, line), capture_output=True, text=True, timeout=within, check=False)
        assert done.returncode == 0, f"on {name}, {line!r}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, name: str, line: str) -> None:
        """Let something run on a host until all ends; what it says is in `NAME.log`."""
        with open(self.directory / f"{name}.log", "ab") as said:
            about = {"stdout": said, "stderr": subprocess.STDOUT, "start_new_session": True}
            self._running.append(subprocess.Popen(**self._command(name, line), **about))

    def wait(self, name: str, line: str, within: float = 60.0) -> str:
        """What a command prints on a host once it succeeds."""
        end = time.monotonic() + within
        while True:
            try:
                return self.run(name, line)
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def close(self) -> None:
        for process in self._running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._running:
            process.wait(30)
        for name in (*self.names, "switch"):
            subprocess.run(("ip", "netns", "del", self._space(name)), check=False, capture_output=True)


def _openssl(words: str) -> None:
    subprocess.run(("openssl", *words.split()), check=True, capture_output=True)
