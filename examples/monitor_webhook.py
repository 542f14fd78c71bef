"""Monitoring: check a page every minute, and post to a webhook when it is down and when it is back.

    python monitor_webhook.py https://example.org/ https://hooks.example.com/x "Welcome"

The page is down if it does not respond, has an error status, or lacks the text; three more checks
must confirm it. Ctrl-C stops the checks. A fourth argument changes the interval, such as `30s`.
Webhooks are signed if the environment variable LYCOSA_WEBHOOK_SECRET is set.
"""

import sys

from lycosa import LycosaError, Workspace


def main(url: str, webhook: str, text: str = "", every: str = "60s") -> None:
    """Check `url` until the process is stopped."""
    workspace = Workspace("monitoring")
    try:
        workspace.monitors.add(url, expect=text, every=every, notify=[f"webhook {webhook}"])
    except LycosaError as error:  # an earlier call has added it
        print(error, file=sys.stderr)
    workspace.monitors.run()
    for report in workspace.monitors.report().monitors:
        print(f"{report.url}: {report.state}, {len(report.outages)} outages")


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 5:
        sys.exit("usage: monitor_webhook.py URL WEBHOOK [TEXT [INTERVAL]]")
    main(*sys.argv[1:])
