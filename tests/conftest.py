"""Settings of all tests."""

from hypothesis import settings

# How long an example takes is for benchmarks to say: a busy machine is no failure.
settings.register_profile("podgate", deadline=None)
settings.load_profile("podgate")
