"""Hooks: the points at which features and plug-ins take part in Lycosa.

`specs` lists the hooks with their arguments. `plugins` loads the features of this package and the
installed plug-ins, and calls their hooks. A plug-in that raises is reported and switched off; the
caller continues. Nothing here knows what a plug-in does.
"""

from lycosa.hooks.specs import hook

__all__ = ["hook"]
