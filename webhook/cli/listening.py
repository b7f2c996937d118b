"""``--bind``: where a process of ours listens."""

from __future__ import annotations

import errno
import socket

import click

MAX_PORT = 65535


def bind_address(bind: str, port: int) -> tuple[str, int]:
    """Host and port that ``--bind`` says; the host is "" where all addresses are meant.

    Args:
        bind: what was given.
        port: for the example of what is expected.

    Raises:
        click.UsageError: it says neither.
    """
    host, colon, number = bind.rpartition(":")
    if not colon or not number.isdecimal() or int(number) > MAX_PORT:
        raise click.UsageError(f"--bind {bind}: expected [HOST]:PORT, such as :{port} or 127.0.0.1:{port}")
    return host.removeprefix("[").removesuffix("]"), int(number)


def listen(address: tuple[str, int], backlog: int | None = None) -> socket.socket:
    """A socket that listens, for IPv4 and IPv6 where no host is said: pods of a cluster may have addresses of either kind.

    Args:
        address: as `bind_address` gives it.
        backlog: connections that wait to be accepted; the system's own number where None.

    Raises:
        click.UsageError: nobody can listen there; the text says what to do.
    """
    host, port = address
    is_dual = socket.has_dualstack_ipv6()
    found = host or ("::" if is_dual else "")
    family = socket.AF_INET6 if ":" in found else socket.AF_INET
    try:
        return socket.create_server(
            (found, port), family=family, backlog=backlog, dualstack_ipv6=is_dual and found == "::"
        )
    except OSError as error:
        raise click.UsageError(f"{host}:{port}: {_advice(error)}") from error


def _advice(error: OSError) -> str:
    return {
        errno.EADDRINUSE: "the port is in use: stop the other program, or choose another with --bind",
        errno.EACCES: "not permitted: ports below 1024 need privileges, choose another with --bind",
        errno.EADDRNOTAVAIL: "this machine has no such address: without HOST it listens on all it has",
    }.get(error.errno or 0, error.strerror or str(error))
