"""Log-in forms as pages have them, and the sending of one."""

from __future__ import annotations

import pytest

from lycosa.core.records import Request
from lycosa.fetch.login import FORM_TYPE, Form, asks_for_password, read_form
from tests.fetch.fetching import open_fetcher, run
from tests.servers.members import PASSWORD, USER, Members, members

URL = "https://h.example/a/login?x=1"


@pytest.mark.parametrize(
    ("markup", "action", "fields"),
    [
        ('<form method=post><input name=pw type=password><input name=t value="a&amp;b" type=hidden>', URL, [("t", "a&b")]),
        ("<form method=POST action=../in><input name=pw></form>", "https://h.example/in", [("pw", "")]),
        ("<base href=/b/><form method=post action=in><input name=pw></form>", "https://h.example/b/in", [("pw", "")]),
        ("<form method=post action=/q><input name=q></form><form method=post action=/in><INPUT "
         "TYPE=Password name=x></form>",
         "https://h.example/in", [("x", "")]),
        ("<form method=post><input name=pw><input type=checkbox name=stay checked><input "
         "type=checkbox name=e value='' checked>"
         "<input type=checkbox name=no><input type=submit name=go>"
         "<select name=s><option>1<option selected value=2>two</select><input name=off "
         "disabled><textarea name=w>words</textarea></form>",
         URL, [("pw", ""), ("stay", "on"), ("e", ""), ("s", "2"), ("w", "words")]),
    ],
)  # fmt: skip
def test_forms(markup: str, action: str, fields: list[tuple[str, str]]) -> None:
    form = read_form(markup.encode(), URL, "pw")
    assert form is not None
    assert form.action == action
    assert [pair for pair in form.fields if pair[0] != "x" or pair[1]] == [
        pair for pair in fields if pair[0] != "x"
    ]


@pytest.mark.parametrize(
    "markup",
    [
        "",
        "<form><input name=pw type=password></form>",
        "<form method=post action=mailto:x><input name=pw></form>",
    ],
)
def test_what_is_no_form_to_log_in_with(markup: str) -> None:
    assert read_form(markup.encode(), URL, "pw") is None


def test_filling_in() -> None:
    form = Form("https://h.example/in", (("pw", ""), ("t", "1"), ("user", "nobody")))
    assert form.filled({"user": "wölf", "pw": "a b&c"}) == b"t=1&user=w%C3%B6lf&pw=a+b%26c"


def test_asking_for_a_password() -> None:
    assert asks_for_password(b"<INPUT TYPE=PassWord>")
    assert not asks_for_password(b"<p>your password was changed</p>")


def test_a_form_is_sent_once_and_the_next_request_is_a_get() -> None:
    body = f"token=t%261&user={USER}&pass={PASSWORD}".encode()
    with members(Members()) as site, open_fetcher([("127.0.0.1", site.port)]) as fetcher:
        [posted] = run(
            fetcher,
            [
                Request(
                    site.url("/login"),
                    headers=(("Content-Type", FORM_TYPE), ("Cookie", "form=1")),
                    form=body,
                )
            ],
        )
        [got] = run(fetcher, [Request(site.url("/welcome"))])
    assert [(each.method, each.body) for each in site.asked] == [("POST", body), ("GET", b"")]
    assert site.asked[0].headers["content-length"] == str(len(body))
    assert (posted.status, got.status) == (302, 200)
    assert posted.request_head.startswith(b"POST /login HTTP/1.1\r\n")
    assert got.request_head.startswith(b"GET /welcome HTTP/1.1\r\n")
    assert b"Content-Length" not in posted.request_head  # it would tell how long the password is
