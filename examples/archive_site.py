"""Archive a site: crawl it with images, style sheets and scripts, and write one WACZ file.

    python archive_site.py https://example.org/

The file, here `example.org.wacz`, opens in https://replayweb.page and in other players of web
archives. Run it again later: the file then also contains the versions of pages that have changed.
"""

import sys
from urllib.parse import urlsplit

from lycosa import Workspace

SETTINGS = {"collection": {"requisites": True, "recrawl": "age", "max_age": "1h"}}


def main(url: str) -> None:
    """Archive the site at `url`."""
    name = urlsplit(url).hostname
    workspace = Workspace("archive", SETTINGS)
    with workspace.crawl_iter(url) as pages:
        for page in pages:
            print(page.status, page.url)
    for failed, reason in pages.report.failures.items():
        print(f"{failed}: {reason}", file=sys.stderr)
    exported = workspace.export.wacz(f"{name}.wacz", site=url, title=f"{name}, archived by Lycosa")
    print(f"{exported.path}: {exported.pages} pages, {exported.captures} captures")
    # Every record of the workspace is verified, not only those of this site.
    print("archive complete" if workspace.maintenance.check().ok else "run `lycosa check`")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: archive_site.py URL")
    main(sys.argv[1])
