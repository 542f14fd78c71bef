"""Hooks: the points at which Lycosa calls features and plug-ins.

`specs` lists the hooks with their arguments. `plugins` loads the features of this package and the
installed plug-ins, and calls their hooks. A plug-in that raises is reported and switched off; the
caller continues. This package does not depend on features.
"""

from lycosa.hooks.specs import hook

__all__ = ["hook"]
