"""Shift the clock of a Python process by LYCOSA_TEST_CLOCK_S seconds.

For tests only: this folder is in PYTHONPATH of machines with a wrong clock, because the kernel has
one clock for all namespaces. A preloaded library (`tests.trust.dates`) would also shift the clock
of Ray's own programs, whose timeouts use the clock of the kernel.
"""

import os
import time

_ahead_ns = int(os.environ["LYCOSA_TEST_CLOCK_S"]) * 10**9
_true_ns = time.time_ns
time.time_ns = lambda: _true_ns() + _ahead_ns
time.time = lambda: time.time_ns() / 1e9
