"""Settings of all tests."""

import signal

from hypothesis import settings

# How long an example takes is for benchmarks to say: a busy machine is no failure.
settings.register_profile("podgate", deadline=None)
settings.load_profile("podgate")

# A shell without job control has what it starts in the background ignore Ctrl-C, and programs that tests start inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
