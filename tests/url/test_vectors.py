"""All of the URL standard's vectors, for what the room claims: http, https and ftp, UTF-8 and the
legacy encodings of queries.
"""

from __future__ import annotations

from collections import Counter

import ada_url
import pytest

from lycosa.core.errors import Refusal, UrlError
from lycosa.url.normalise import LinkResolver, normalise
from tests.url.strategies import structure
from tests.url.vectors import vectors


def expected(href: str) -> str:
    """A vector's href without fragment and userinfo, its percent-encoding written our way. What is
    no page of the web is finished by rules of its own (`test_files`).
    """
    if not href.startswith("http"):
        return normalise(href)
    url = ada_url.URL(href)
    url.username = url.password = ""
    return structure(url.href.partition("#")[0])


CRAWLED = ("http:", "https:", "ftp:", "gopher:")


def test_parsing() -> None:
    done: Counter[str] = Counter()
    for case in vectors("urltestdata.json"):
        text, base = case["input"], case.get("base")
        if base is None:
            outcome = _outcome_of(text)
        elif not base.startswith(("http://", "https://", "ftp://", "gopher://")):
            done["base of another scheme"] += 1  # the room resolves links of what is crawled alone
            with pytest.raises(UrlError, match="only http, https"):
                LinkResolver(base)
            if not case.get("failure"):
                outcome = _outcome_of(case["href"])
                assert outcome == (
                    expected(case["href"]) if case["protocol"] in CRAWLED else Refusal.SCHEME
                ), case
            continue
        else:
            outcome = LinkResolver(base).resolve(text)
        if case.get("failure"):
            done["failure"] += 1
            assert outcome in (Refusal.UNPARSABLE, Refusal.SCHEME), case
        elif case["protocol"] == "gopher:" and not case["href"].startswith("gopher://"):
            done["nobody to ask"] += 1
            assert outcome is Refusal.UNPARSABLE, case  # without a host there is nobody to ask
        elif case["protocol"] in CRAWLED:
            done["crawled"] += 1
            assert outcome == expected(case["href"]), case
        else:
            done["another scheme"] += 1
            assert outcome is Refusal.SCHEME, case
    # The whole file, case by case. Of `base of another scheme` (file:, about:, mailto: …) the
    # joining is left out, since the room refuses such a page as a whole: the vector's own href is
    # normalised instead.
    assert done == {
        "crawled": 256,
        "another scheme": 240,
        "nobody to ask": 4,
        "failure": 257,
        "base of another scheme": 134,
    }


def test_hosts() -> None:
    cases = vectors("toascii.json")
    assert len(cases) > 80
    for case in cases:
        if case["output"] is None:
            with pytest.raises(UrlError):
                normalise(f"https://{case['input']}/x")
        else:
            assert normalise(f"https://{case['input']}/x") == f"https://{case['output']}/x", case


def test_query_encodings() -> None:
    passed, different = 0, []
    for case in vectors("percent-encoding.json"):
        for encoding, output in case["output"].items():
            if (
                LinkResolver("http://h/", encoding).resolve(f"?{case['input']}")
                == f"http://h/?{output}"
            ):
                passed += 1
            else:
                different.append((case["input"], encoding))
    assert passed == 14
    # Python's codecs differ from the standard's here: a control character that ISO-2022-JP cannot
    # hold, and a private-use character that GB18030 (2005) maps where the standard has none.
    assert different == [("\x0eA", "iso-2022-jp"), ("\ue5e5", "gb18030")]


def _outcome_of(text: str) -> str | Refusal:
    try:
        return normalise(text)
    except UrlError as error:
        return error.reason
