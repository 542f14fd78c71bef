"""Jobs: modules run once in a process of their own, which ends with its parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from lycosa.processes.parentage import interrupts_held
from lycosa.processes.platform import end_with_parent
from lycosa.processes.terminal import escape_output


def start_job(module: str, order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start `python -m module` with an order for `job_order`. It ends with the calling thread.

    Unlike a `children.Child` it does not import the main module of the parent, so that scripts that
    call Lycosa need no `if __name__ == "__main__"`.
    """
    command = [sys.executable, "-m", module, json.dumps({"parent": os.getpid()} | order)]
    with interrupts_held():
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def job_order(name: str) -> dict[str, Any]:
    """Return the order of `start_job` in the started process. `name`: shown by `top`."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    end_with_parent(order.pop("parent"), name)
    escape_output()
    return order
