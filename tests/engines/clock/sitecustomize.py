"""Sets the date of a Python process wrong by LYCOSA_TEST_CLOCK_S seconds, as soon as it starts.

For tests only: this folder is in PYTHONPATH of the machines whose clock is to be wrong. The kernel
has one date for all namespaces. A preloaded library (`tests.trust.dates`) would also change the
date of Ray's own programs, whose waits end by the date of the kernel.
"""

import os
import time

_ahead_ns = int(os.environ["LYCOSA_TEST_CLOCK_S"]) * 10**9
_true_ns = time.time_ns
time.time_ns = lambda: _true_ns() + _ahead_ns
time.time = lambda: time.time_ns() / 1e9
