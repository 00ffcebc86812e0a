"""Opening SSH connections hop by hop, with one policy, a deadline each and a limit on handshakes under way.

Agent and X11 forwarding, port forwards, SendEnv, passwords and ssh_config options that are not named in `route`
are off, whatever a file says.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

from backends.clean import clean
from backends.clock import Clock
from backends.errors import CredentialsError, HostKeyError, ReprieveError, UnreachableError, UsageError
from backends.nodes.hostkeys import HostKeys, Shown, Trust, refusal
from backends.nodes.route import Hop, Route
from backends.nodes.transports import check_tool

HANDSHAKE_S = 10.0  # deadline of TCP connection, key exchange and login of one hop
PER_SERVER = 8  # handshakes at once with one sshd, whose MaxStartups drops beyond 10 (sshd_config(5))
IN_ALL = 64  # handshakes at once from this program: each costs about 3 ms of CPU
KEEPALIVE_S = 10.0
KEEPALIVE_MISSED = 3
BACKOFF_FIRST_S = 0.5
BACKOFF_LAST_S = 30.0

Connection = asyncssh.SSHClientConnection


class Lasting:
    """A connection that is opened on demand, once for all who ask, and again after it broke.

    After a failure the next attempt waits: 0.5 s doubled up to 30 s, times a random half to whole.
    """

    def __init__(
        self, opening: Callable[[], Awaitable[Connection]], clock: Clock, jitter: Callable[[], float]
    ) -> None:
        self._opening = opening
        self._clock = clock
        self._jitter = jitter  # a random number from 0 to 1
        self._connection: Connection | None = None
        self._task: asyncio.Task[Connection] | None = None
        self._failures = 0
        self._not_before = 0.0  # monotonic
        self.last_error: ReprieveError | None = None

    async def get(self) -> Connection:
        """The open connection; raise what opening it raised. The caller sets the deadline."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._task is None:
            self._task = asyncio.create_task(self._open())
            self._task.add_done_callback(self._finished)
        return await asyncio.shield(self._task)

    async def drop(self) -> None:
        """Close what is open or being opened; the next `get` opens anew."""
        task, connection = self._task, self._connection
        self._task = self._connection = None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if connection is not None:
            connection.abort()
            with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
                async with asyncio.timeout(2.0):
                    await connection.wait_closed()

    async def _open(self) -> Connection:
        wait_s = self._not_before - self._clock.monotonic()
        if wait_s > 0:
            await self._clock.pause(wait_s)
        try:
            connection = await self._opening()
        except ReprieveError as error:
            self.last_error = error
            # A refused key or host key will not change by asking often.
            self._failures = self._failures + 1 if isinstance(error, UnreachableError) else 99
            span_s = min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2.0 ** min(self._failures - 1, 16))
            self._not_before = self._clock.monotonic() + span_s * (0.5 + 0.5 * self._jitter())
            raise
        self._failures, self._not_before, self.last_error = 0, 0.0, None
        self._connection = connection
        return connection

    def _finished(self, task: asyncio.Task[Connection]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled():
            task.exception()  # whoever waited has seen it; nobody may have waited


class Connector:
    """Opens routes; jump hosts are opened once and shared by all nodes behind them."""

    def __init__(self, host_keys: HostKeys, clock: Clock, jitter: Callable[[], float]) -> None:
        self._host_keys = host_keys
        self._clock = clock
        self._jitter = jitter
        self._all = asyncio.Semaphore(IN_ALL)
        self._servers: dict[tuple[str, int], asyncio.Semaphore] = {}
        self._jumps: dict[tuple[Hop, ...], Lasting] = {}

    async def open(self, route: Route, pinned: str | None) -> Connection:
        """A connection to the last hop of `route`; `pinned` is that hop's host key line, if the fleet has one.

        Raises:
            HostKeyError, CredentialsError, UnreachableError, UsageError: naming the hop.
        """
        tunnel = await self._jump(route.hops[:-1]) if len(route.hops) > 1 else None
        return await self._handshake(route.hops[-1], tunnel, pinned)

    async def shown_key(self, route: Route, trust: Trust) -> asyncssh.SSHKey:
        """The host key the last hop of `route` shows, without logging in there; raises as `open` does.

        A host has several keys: one of the kind that `trust` holds is asked for first, so that an unchanged host
        does not look changed.
        """
        tunnel = await self._jump(route.hops[:-1]) if len(route.hops) > 1 else None
        hop = route.hops[-1]
        kinds = [name.decode() for key in trust.keys for name in key.sig_algorithms]
        async with self._slot(hop), _explained(hop):
            for algorithms in ([kinds] if kinds else []) + [None]:
                try:
                    key = await asyncssh.get_server_host_key(
                        hop.host,
                        hop.port,
                        tunnel=tunnel,
                        config=None,
                        server_host_key_algs=algorithms or (),
                        proxy_command=_proxy(hop),
                    )
                except asyncssh.KeyExchangeFailed:
                    if algorithms is None:
                        raise
                    continue
                if key is not None:
                    return key
        raise UnreachableError(f"{hop.shown} shows no host key")

    async def close(self) -> None:
        """Close the jump hosts' connections."""
        jumps, self._jumps = list(self._jumps.values()), {}
        await asyncio.gather(*(jump.drop() for jump in jumps))

    async def _jump(self, hops: tuple[Hop, ...]) -> Connection:
        if hops not in self._jumps:

            async def opening() -> Connection:
                return await self.open(Route(hops), None)

            self._jumps[hops] = Lasting(opening, self._clock, self._jitter)
        return await self._jumps[hops].get()

    async def _handshake(self, hop: Hop, tunnel: Connection | None, pinned: str | None) -> Connection:
        trust = self._host_keys.trust(hop, pinned)
        options = login_options(hop)
        client = Shown()
        async with self._slot(hop), _explained(hop):
            try:
                return await asyncssh.connect(
                    hop.host,
                    hop.port,
                    tunnel=tunnel,
                    username=hop.user,
                    host_key_alias=hop.host_key_alias,
                    known_hosts=trust.known_hosts(),
                    client_factory=lambda: client,
                    proxy_command=_proxy(hop),
                    **_FIXED,
                    **options,
                )
            except asyncssh.HostKeyNotVerifiable:
                raise refusal(hop, trust, client.key) from None
            except asyncssh.KeyExchangeFailed as error:
                if not trust.keys:
                    raise
                kinds = ", ".join(sorted({key.get_algorithm() for key in trust.keys}))
                raise HostKeyError(
                    f"host key changed: {hop.shown} has no key of the stored kind ({kinds}): {clean(error)}; "
                    f"nothing was sent",
                    hint="compare with the console output of the machine before you accept another key",
                ) from None

    @contextlib.asynccontextmanager
    async def _slot(self, hop: Hop) -> AsyncIterator[None]:
        server = self._servers.setdefault((hop.host, hop.port), asyncio.Semaphore(PER_SERVER))
        async with server, self._all:
            yield


# Nothing of ~/.ssh is read by asyncssh itself (config=None), nothing is forwarded, only keys log in.
_FIXED: dict[str, Any] = {
    "config": None,
    "agent_forwarding": False,
    "x11_forwarding": False,
    "send_env": None,
    "env": None,
    "request_pty": False,
    "x509_trusted_certs": None,
    "x509_trusted_cert_paths": [],
    "preferred_auth": ["publickey"],
    "password_auth": False,
    "kbdint_auth": False,
    "host_based_auth": False,
    "gss_host": None,
    "connect_timeout": HANDSHAKE_S,
    "login_timeout": HANDSHAKE_S,
    "keepalive_interval": KEEPALIVE_S,
    "keepalive_count_max": KEEPALIVE_MISSED,
}


def _proxy(hop: Hop) -> list[str] | None:
    """The tunnel's program and arguments, run without a shell; None over TCP."""
    if not hop.tunnel:
        return None
    check_tool(hop.tunnel)
    return list(hop.tunnel)


def login_options(hop: Hop) -> dict[str, Any]:
    """Options for the keys of `hop`: its identity files alone, else the agent and the default keys.

    An identity file that needs a passphrase is used through the agent, which then offers that key alone.

    Raises:
        CredentialsError: the file is missing, readable by others, or no private key.
    """
    present = [item for item in hop.identity_files if Path(item).exists()]
    if not hop.identity_files:
        return {}
    if not present:
        raise CredentialsError(f"SSH key {hop.identity_files[0]} for {hop.shown} is not there")
    locked = [item for item in present if _needs_passphrase(item)]
    usable = [item for item in present if item not in locked]
    if usable:
        return {"client_keys": usable, "agent_path": None, "agent_identities": None}
    public = [f"{item}.pub" for item in locked if Path(f"{item}.pub").exists()]
    if not public:
        raise CredentialsError(
            f"SSH key {locked[0]} for {hop.shown} needs a passphrase, and {locked[0]}.pub is not there to find it "
            f"in the agent; add both, or use a key without a passphrase"
        )
    return {"agent_identities": public}


def _needs_passphrase(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise CredentialsError(f"SSH key {path} can be read by others; run `chmod 600 {path}`")
        asyncssh.read_private_key(path)
    except asyncssh.KeyEncryptionError:
        return True
    except asyncssh.KeyImportError as error:
        if "passphrase" in str(error).lower():
            return True
        raise CredentialsError(f"SSH key {path} is no private key that can be read: {clean(error)}") from None
    except OSError as error:
        raise CredentialsError(f"SSH key {path} cannot be read: {error.strerror}") from None
    return False


@contextlib.asynccontextmanager
async def _explained(hop: Hop) -> AsyncIterator[None]:
    """Turn what a handshake raises into one plain line, and end it at its deadline whatever the peer does."""
    try:
        async with asyncio.timeout(2 * HANDSHAKE_S):
            yield
    except TimeoutError:
        raise UnreachableError(
            f"{hop.shown} did not complete an SSH handshake within {HANDSHAKE_S:g} s"
        ) from None
    except asyncssh.PermissionDenied as error:
        raise CredentialsError(
            f"{hop.shown} refused the login: {clean(error)}",
            hint="name the right user and identity_file in the fleet's file, or load the key into the SSH agent",
        ) from None
    except (asyncssh.Error, OSError) as error:
        text = (
            "the connection was refused: does its SSH server run, and on that port?"
            if isinstance(error, ConnectionRefusedError)
            else getattr(error, "strerror", None)
            or getattr(error, "reason", None)
            or str(error)
            or type(error).__name__
        )
        raise UnreachableError(f"{hop.shown} cannot be reached: {clean(text)}") from None
    except ValueError as error:
        raise UsageError(f"{hop.shown}: {clean(error)}") from None
