"""How the two servers are set up: a TOML file, then the environment, then the command line; errors stop here."""

from __future__ import annotations

import os
import re
import ssl
import tomllib
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from croupier.checks import CroupierError, InvalidParameter, between, finite, integer, one_of, positive
from croupier.client.limits import on_this_machine
from croupier.messages.admission import ADMISSIONS, Admission
from croupier.messages.admission import KINDS as WAYS
from croupier.messages.sealing import DEFAULT_SUITE, SUITES
from croupier.service.keys import public_key

S = TypeVar("S", "FrontSettings", "AnalyzerSettings")

KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
"""What a setting of each type is called."""


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What both servers have: keys, a store, an address, a way to seal reports, and perhaps a certificate.

    Pages of the web sites in `origins` may be clients. `plain_http` says that somebody else, such as a proxy, encrypts
    what comes from beyond this machine.
    """

    keys: str
    store: str
    listen: str
    url: str = ""
    openers: int = 1
    suite: str = DEFAULT_SUITE
    origins: str = ""
    certificate: str = ""
    certificate_key: str = ""
    plain_http: bool = False

    def __post_init__(self) -> None:
        address(self.listen)
        store_url(self.store)
        _web_address("url", self.url)
        integer("openers", self.openers, 0, 256)
        one_of("suite", self.suite, tuple(SUITES))
        origins_of(self.origins)
        _tls(self.certificate, self.certificate_key)
        _listens_in_private(self)

    @property
    def public_url(self) -> str:
        """The address that clients use."""
        return _public(self)


@dataclass(frozen=True, kw_only=True)
class FrontSettings(ServerSettings):
    """The front's settings.

    `analyzer` is the file with the secret that the analyzer shows, or `sha256:` and its hash. `ahead` times as many
    turns as a batch has users are given out, and `spare` more, where a batch must be full; a turn that is not reported
    `due_within` seconds after its experiment's window is given to somebody else too. `admission` has no
    default: `everybody`, or `tickets` or blind `tokens` of the holder of the public key `issuer`, who must not be the
    analyzer. Spent tickets are remembered `remember` seconds, and none may be valid for longer; spent blind tokens are
    remembered for good.
    `largest_epsilon` and `smallest_batch` are what this front lends
    itself to, and `url` the one address of it that it signs. Uploads are written in groups of up to `group_size`, or
    what came in `group_seconds`; `openers` processes open, check and write them, for each worker (0: the worker itself
    does). No more than `queue` requests wait.
    """

    analyzer: str
    admission: str
    issuer: str = ""
    listen: str = "127.0.0.1:8401"
    workers: int = 1
    ahead: float = 1.5
    spare: int = 2
    due_within: int = 30
    remember: int = 7 * 86_400
    largest_epsilon: float = 10.0
    smallest_batch: int = 2
    group_size: int = 100
    group_seconds: float = 0.005
    queue: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("workers", self.workers, 1, 256)
        integer("spare", self.spare, 0)
        integer("due_within", self.due_within, 1)
        integer("smallest_batch", self.smallest_batch, 2)
        integer("group_size", self.group_size, 1, 10_000)
        integer("queue", self.queue, 1)
        between("group_seconds", self.group_seconds, 0, 1, "[]")
        positive("largest_epsilon", self.largest_epsilon)
        _secret("analyzer", self.analyzer)
        admission_of(self)
        integer("remember", self.remember, WAYS[self.admission].shortest_memory)
        if finite("ahead", self.ahead) < 1:
            raise InvalidParameter("ahead", self.ahead, "a number >= 1")


@dataclass(frozen=True, kw_only=True)
class AnalyzerSettings(ServerSettings):
    """The analyzer's settings.

    `bearer` is the file with the secret that it shows the front; `admin` the one that operators show, or `sha256:`
    and its hash. `url` and `front` are the addresses that clients use; `front_internal` is its own way there.
    With `plain_http` somebody else encrypts what goes to the front, too. A sealing key is offered for `epoch` seconds,
    and destroyed when no report can come under it any more; 0: for ever. Who logs in at the page must do so again
    after `session` seconds.
    """

    bearer: str
    admin: str
    front: str
    front_internal: str = ""
    listen: str = "127.0.0.1:8400"
    poll: float = 0.05
    epoch: int = 7 * 86_400
    session: int = 43_200

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("poll", self.poll)
        integer("epoch", self.epoch, 0)
        integer("session", self.session, 60, 30 * 86_400)
        _secret("admin", self.admin)
        if not self.front:
            raise InvalidParameter("front", self.front, "an http or https address")
        for name in ("front", "front_internal"):
            _web_address(name, getattr(self, name))
        _asks_in_private(self)


def read(
    kind: type[S], prefix: str, path: str | None, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> S:
    """Put settings together: the file, then variables as CROUPIER_FRONT_STORE, then what was given."""
    values: dict[str, Any] = read_toml(path) if path else {}
    hints = typing.get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    begin = f"CROUPIER_{prefix}_"
    variables = {name.removeprefix(begin).lower(): name for name in environment if name.startswith(begin)}
    values |= {name: environment[variable] for name, variable in variables.items()}
    values |= {name: value for name, value in given.items() if value is not None}
    for name in values:
        if name not in known:
            raise InvalidParameter("setting", name, "one of " + ", ".join(sorted(known)))
    for name, variable in variables.items():
        if given.get(name) is None:
            values[name] = _typed(variable, environment[variable], hints[name])
    for name, value in values.items():
        if isinstance(value, int) and hints[name] is float:
            values[name] = float(value)
        elif not isinstance(value, hints[name]) or isinstance(value, bool) != (hints[name] is bool):
            raise InvalidParameter(name, value, KINDS[hints[name]])
    missing = [f.name for f in fields(kind) if f.default is MISSING and f.name not in values]
    if missing:
        raise CroupierError(
            f"these settings are missing: {', '.join(missing)}; `croupier serve --help` says what they are"
        )
    return kind(**values)


def read_toml(path: str) -> dict[str, Any]:
    """A TOML file, or one clear line about what is wrong with it."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CroupierError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CroupierError(f"{path} is not TOML: {error}") from None


def toml_of(name: str, text: str) -> dict[str, Any]:
    """A text as TOML, or one clear line about what is wrong with it."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CroupierError(f"{name} is not TOML: {error}") from None


def address(listen: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8400`."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidParameter("listen", listen, "a host and a port, as 127.0.0.1:8400")
    return host.strip("[]"), int(port)


def store_url(store: str) -> str:
    """A store's address: a plain path is an SQLite file."""
    if not store:
        raise InvalidParameter("store", store, "a file, or an address as postgresql://host/database")
    return store if "://" in store else f"sqlite:///{store}"


def origins_of(text: str) -> list[str]:
    """The web sites of `https://shop.example https://www.shop.example:8443`, or `*` for all of them."""
    origins = text.split()
    for origin in origins:
        if origin != "*" and not re.fullmatch(r"https?://[^\s/@?#*]+", origin):
            raise InvalidParameter("origins", origin, "* or addresses without a path, as https://shop.example")
    return origins


def admission_of(settings: FrontSettings) -> Admission:
    """Who may take part, as it is signed."""
    way = WAYS[one_of("admission", settings.admission, ADMISSIONS)]
    issuer = public_key("issuer", settings.issuer, way.key, way.key_length) if settings.issuer and way.key else None
    if settings.issuer and not way.key:
        raise InvalidParameter("issuer", settings.issuer[:80], f"left out with admission = {settings.admission!r}")
    return Admission(settings.admission, issuer)


def flag(text: str) -> bool:
    """`true` or `false`, as TOML has them."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError(text)
    return value


def reader(kind: type) -> Callable[[str], Any]:
    """What makes a setting of this type from a text."""
    return flag if kind is bool else kind


def _typed(name: str, text: str, kind: type) -> Any:
    try:
        return reader(kind)(text)
    except ValueError:
        raise InvalidParameter(name, text, KINDS[kind]) from None


def _public(settings: ServerSettings) -> str:
    scheme = "https" if settings.certificate else "http"
    return (settings.url or f"{scheme}://{settings.listen}").rstrip("/")


def _web_address(name: str, value: str) -> None:
    if value and not value.startswith(("http://", "https://")):
        raise InvalidParameter(name, value, "an http or https address")


def _listens_in_private(settings: ServerSettings) -> None:
    if not (on_this_machine(f"http://{settings.listen}") or settings.certificate or settings.plain_http):
        raise InvalidParameter(
            "listen",
            settings.listen,
            "an address of this machine alone, as 127.0.0.1:8400, unless there is a certificate, "
            "or plain_http = true says that a proxy encrypts what comes from outside",
        )


def _asks_in_private(settings: AnalyzerSettings) -> None:
    """The secret that the analyzer shows the front must not be read on its way."""
    name = "front_internal" if settings.front_internal else "front"
    url = getattr(settings, name)
    if not (url.startswith("https://") or on_this_machine(url) or settings.plain_http):
        raise InvalidParameter(
            name, url, "an https address, unless plain_http = true says that the way there is encrypted"
        )


def _secret(name: str, value: str) -> None:
    if value.startswith("sha256:") and not re.fullmatch("sha256:[0-9a-f]{64}", value):
        raise InvalidParameter(name, value, "a file, or sha256: and 64 hexadecimal digits")


def _tls(certificate: str, key: str) -> None:
    if bool(certificate) != bool(key):
        raise InvalidParameter("certificate_key", key, "given if and only if a certificate is")
    for path in (certificate, key):
        if path and not Path(path).is_file():
            raise InvalidParameter("certificate", path, "a file that exists")
    if certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidParameter("certificate", certificate, f"a PEM file that fits its key ({error})") from None
