"""For all tests: no example of hypothesis has a deadline, for how long one takes says more of the
machine's load than of us.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("lycosa", deadline=None)
settings.load_profile("lycosa")
