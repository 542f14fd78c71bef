"""Sentences that keep what they are made of."""

from __future__ import annotations

import copy
import json
import pickle
import re
import runpy
from pathlib import Path

from lycosa.core.messages import Message, listed
from lycosa.serve.web.i18n import interface

ROOT = Path(__file__).parents[2]


def test_a_sentence_is_its_english_text() -> None:
    plain = Message(
        "pages",
        "{n, plural, one {# page} other {# pages}} of {host}: {why}",
        n=1,
        host="{n} <b>",
        why=Message("why", "so"),
    )
    assert plain == "1 page of {n} <b>: so"
    assert json.loads(json.dumps([plain])) == [plain]
    for again in (pickle.loads(pickle.dumps(plain)), copy.deepcopy(plain)):
        assert (again, again.code, again.message, again.values) == (
            plain,
            "pages",
            plain.message,
            plain.values,
        )
    assert plain.values["why"].code == "why"  # type: ignore[union-attr]


def test_several_sentences_as_one() -> None:
    assert (listed([]), listed(["plain"])) == ("", "plain")
    both = listed([Message("a", "one"), "two", Message("b", "three")])
    assert both == "one; two; three"
    assert interface("zh").said(both).count("；") == 2


def test_our_english_is_icu_s() -> None:
    said_messages = runpy.run_path(str(ROOT / "scripts" / "make_translations.py"))["said_messages"]
    english = interface("en")
    result = sorted(said_messages())
    assert len(result) > 100
    for message in result:
        names = set(re.findall(r"\{(\w+)[,}]", message))
        for number in (1, 2, 123):
            plural = set(re.findall(r"\{(\w+), plural", message))
            values: dict[str, str | int] = {
                name: number if name in plural else f"<{name}'s>" for name in names
            }
            if values:
                assert Message("code", message, **values) == english.t(message, **values)
            else:
                assert Message("code", message) == message == english.t(message)
