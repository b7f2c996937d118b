"""`--bind` of both servers."""

from __future__ import annotations

import socket

import click
import pytest

from webhook.cli.listening import bind_address, listen

NEEDS_IPV6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize(
    ("bind", "expected"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_what_is_said(bind: str, expected: tuple[str, int]) -> None:
    assert bind_address(bind, 8080) == expected


@NEEDS_IPV6
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_without_a_host_both_families_are_listened_on(host: str) -> None:
    with listen(("", 0)) as listener, socket.create_connection((host, listener.getsockname()[1]), timeout=5):
        pass


@NEEDS_IPV6
def test_one_host_is_that_alone() -> None:
    with listen(("::1", 0)) as listener, pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", listener.getsockname()[1]), timeout=5)


def test_a_port_in_use() -> None:
    with listen(("", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(click.UsageError) as refused:
            listen(("", port))
    assert (
        str(refused.value)
        == f":{port}: the port is in use: stop the other program, or choose another with --bind"
    )
