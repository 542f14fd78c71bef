"""Focused crawl: start at a page, follow the most relevant links, and use pages as they arrive.

    python hunt_stream.py https://docs.python.org/3/ how do I read CSV files

It stops at the third relevant page or after one minute. Each line of output is one JSON object.
"""

import json
import sys

from lycosa import Workspace


def main(seed: str, *words: str) -> None:
    """Search the pages that `seed` leads to for a question."""
    workspace = Workspace("hunts")
    hunt = workspace.hunt(" ".join(words), seeds=seed, scope="host", enough=3, time="1m")
    with hunt:
        for hit in hunt:
            found = {"seconds": hit.seconds, "score": hit.score, "url": hit.url, "title": hit.title}
            print(json.dumps(found, ensure_ascii=False), flush=True)
    # Scores are computed again at the end, when the frequency of each word is known better.
    best = [result["url"] for result in hunt.report["results"]]
    print(json.dumps({"pages": hunt.report["pages"], "best": best}))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: hunt_stream.py URL WORD...")
    main(*sys.argv[1:])
