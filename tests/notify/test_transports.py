"""Test delivery of notices to webhooks, commands and files."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lycosa.config.reading import parse_config
from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.notify.transports import (
    DeliveryError,
    Notice,
    checked_target,
    notifier_of,
    redacted_target,
)
from tests.site.editable_site import webhook_receiver

NOTICE = Notice(
    "a1b2",
    "match",
    "Wölfe",
    "http://x.example/",
    datetime(2026, 11, 22, 4, 5, 6, 789_000, UTC),
    "„Wolf“ gefunden",
    {"count": 3},
)


def test_a_notice_is_unchanged_by_json() -> None:
    assert Notice.from_json(NOTICE.as_json()) == NOTICE
    assert json.loads(NOTICE.as_json())["at"] == "2026-11-22T04:05:06.789Z"
    assert "\n" not in NOTICE.as_json()


def test_webhooks_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    key = os.urandom(24)
    monkeypatch.setenv("LYCOSA_WEBHOOK_SECRET", "whsec_" + base64.b64encode(key).decode())
    with webhook_receiver() as receiver:
        notifier = notifier_of(f"webhook {receiver.origin}/in?a=1", receiver.config())
        notifier.send(NOTICE)
        notifier.close()
        ((headers, body),) = receiver.requests
    assert json.loads(body)["facts"] == {"count": 3}
    assert headers["content-type"] == "application/json"
    # As specified by https://www.standardwebhooks.com
    signed = f"a1b2.{headers['webhook-timestamp']}.".encode() + body
    assert (
        headers["webhook-signature"]
        == "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    )
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60


@pytest.mark.parametrize(
    ("status", "headers", "retry", "wait_s"),
    [
        (503, {"retry-after": "7"}, True, 7.0),
        (404, {}, True, 0.0),
        (410, {}, False, 0.0),
        (302, {"location": "/x"}, True, 0.0),
    ],
)
def test_responses_of_a_webhook_decide_about_retries(
    status: int, headers: dict[str, str], retry: bool, wait_s: float
) -> None:
    with webhook_receiver() as receiver:
        receiver.answers = [(status, headers)]
        notifier = notifier_of(f"webhook {receiver.origin}/secret", receiver.config())
        with pytest.raises(DeliveryError, match=str(status)) as failed:
            notifier.send(NOTICE)
        notifier.close()
        assert (failed.value.retry, failed.value.wait_s) == (retry, wait_s)
        assert "secret" not in str(failed.value)
        assert len(receiver.requests) == 1  # no redirect was followed


@pytest.mark.proves("access-callers")
def test_webhooks_to_private_addresses_are_refused() -> None:
    with webhook_receiver() as receiver:
        with pytest.raises(UsageError, match="not a public address"):
            notifier_of(f"webhook {receiver.origin}/", Config())
        port = receiver.origin.rpartition(":")[2]
        # the address of a name is checked when connecting
        by_name = notifier_of(f"webhook http://localhost:{port}/", Config())
        with pytest.raises(DeliveryError) as failed:
            by_name.send(NOTICE)
        assert failed.value.retry
        by_name.close()
        assert not receiver.requests
    notifier_of("webhook https://9lives.example/", Config()).close()  # a name, not an address


def test_a_webhook_that_hangs_times_out(tmp_path: Path) -> None:
    config = parse_config("", overrides=("notify.timeout=300ms", "notify.private=127.0.7.72:1"))
    notifier = notifier_of("webhook http://127.0.7.72:1/", config)
    with pytest.raises(DeliveryError, match="did not respond"):
        notifier.send(NOTICE)
    notifier.close()


def test_a_command_receives_the_notice_on_standard_input(tmp_path: Path) -> None:
    target = checked_target(f"command sh -c 'cat > \"{tmp_path}/a b\"'", Config())
    assert target.startswith("command /")
    notifier_of(target, Config()).send(NOTICE)
    assert Notice.from_json((tmp_path / "a b").read_text()) == NOTICE


def test_a_command_that_fails_hangs_or_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse_config("", overrides=("notify.timeout=500ms",))
    with pytest.raises(DeliveryError, match="code 3: disk full") as failed:
        notifier_of("command sh -c 'echo disk full >&2; exit 3'", config).send(NOTICE)
    assert failed.value.retry
    with pytest.raises(DeliveryError, match=r"code 1$"):
        notifier_of("command false", config).send(NOTICE)
    with pytest.raises(DeliveryError, match="did not exit"):
        notifier_of(f"command sh -c 'sleep 5; touch {tmp_path}/late'", config).send(NOTICE)
    assert not (tmp_path / "late").exists()
    with pytest.raises(DeliveryError, match="could not be run"):
        notifier_of("command /nowhere/at-all", config).send(NOTICE)
    monkeypatch.setenv("LYCOSA_WEBHOOK_SECRET", "hush")
    notifier_of(f"command sh -c 'env > {tmp_path}/env'", config).send(NOTICE)
    assert "hush" not in (tmp_path / "env").read_text()


def test_a_notice_is_appended_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "notices.jsonl"
    path.write_text('{"id": "torn')
    notifier = notifier_of(f"file {path}", Config())
    notifier.send(NOTICE)
    notifier.send(NOTICE)
    torn, *lines = path.read_text().splitlines()
    assert (torn, [Notice.from_json(line) for line in lines]) == ('{"id": "torn', [NOTICE, NOTICE])
    with pytest.raises(DeliveryError):
        notifier_of(f"file {tmp_path}/no/where", Config()).send(NOTICE)


@pytest.mark.parametrize(
    "target",
    [
        "", "webhook", "webhook ftp://x.example/", "webhook http://me:pw@x.example/", "webhook http://[/", "mail a@b.example",
        "command", "command 'a", "file", "file x\ny",
    ],
)  # fmt: skip
def test_invalid_targets_are_refused(target: str) -> None:
    with pytest.raises(UsageError):
        notifier_of(target, Config())


def test_targets_are_made_absolute_and_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert checked_target("file out.jsonl", Config()) == f"file {tmp_path}/out.jsonl"
    for wrong in ("file no/where", "file .", "file /dev/null", "command no-such-program-here"):
        with pytest.raises(UsageError):
            checked_target(wrong, Config())
    assert (
        redacted_target("webhook https://hooks.example/T0/secret")
        == "webhook https://hooks.example/…"
    )
