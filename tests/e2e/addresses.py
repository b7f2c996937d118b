"""Where an API server may call: EndpointSlices may not hold loopback addresses."""

from __future__ import annotations

import socket

import pytest


def own_address() -> str:
    """An address of this machine that is not loopback, which EndpointSlices may not hold; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback, which EndpointSlices may not hold")
        return str(probe.getsockname()[0])
