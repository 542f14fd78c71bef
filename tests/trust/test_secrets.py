"""Secrets do not appear in the workspace, output, pages or errors.

Each way to pass a secret gets its own one, which begins with `MARK`. Then everything is searched
for all of them.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote

import polars as pl
import pytest

from lycosa.commands.inspection.status import workspace_status
from lycosa.serve.app import create_app
from lycosa.store.workspace import Workspace
from tests.serve.client import Client
from tests.servers.members import Request, served_site
from tests.site.editable_site import WebhookReceiver, webhook_receiver

SECRETS = {
    "LYCOSA_TEST_BASIC": "MARKbasic pass&word",
    "LYCOSA_TEST_FORM": "MARKform pass&word",
    "LYCOSA_WEBHOOK_SECRET": "whsec_"
    + base64.b64encode(b"MARKhooksecret-of-32-bytes-length").decode(),
    "AWS_ACCESS_KEY_ID": "MARKawskey",
    "AWS_SECRET_ACCESS_KEY": "MARKawssecret",
    "AWS_SESSION_TOKEN": "MARKawssession",
    "HADOOP_DELEGATION_TOKEN": "MARKhadoop",
    "http_proxy": "http://MARKproxyuser:MARKproxypass@127.0.0.1:9/",
    "https_proxy": "http://MARKproxyuser:MARKproxypass@127.0.0.1:9/",
    "ALL_PROXY": "http://MARKproxyuser:MARKproxypass@127.0.0.1:9/",
}
SESSION, HOOK, SEED, LINK, REDIRECT = (
    "MARKsession",
    "MARKhooktoken",
    "MARKseed",
    "MARKlink",
    "MARKredirect",
)


@dataclass
class ProtectedSite:
    """Site with Basic authentication, a login and passwords in URLs."""

    port: int = 0
    requests: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> tuple[int, list[tuple[str, str]], str]:
        page = [("Content-Type", "text/html"), ("Set-Cookie", f"seen={SESSION}; Path=/")]
        here = f"127.0.0.1:{self.port}"
        if request.path == "/robots.txt":
            return 404, [], ""
        if request.path == "/login" and request.method == "GET":
            return (
                200,
                page,
                "<form method=post><input name=user><input name=pass type=password></form>",
            )
        if request.path == "/login":
            assert parse_qs(request.body.decode())["pass"] == [SECRETS["LYCOSA_TEST_FORM"]]
            return 302, [("Location", "/"), ("Set-Cookie", f"sid={SESSION}; HttpOnly; Path=/")], ""
        if request.path == "/":
            links = ("/basic", "/moved", f"http://wolf:{LINK}@{here}/linked")
            return (
                200,
                page,
                "<title>home</title><p>The wolf is home.</p>"
                + "".join(f'<a href="{link}">x</a>' for link in links),
            )
        if request.path == "/moved":
            return 302, [("Location", f"http://wolf:{REDIRECT}@{here}/target")], ""
        if request.path == "/basic" and "authorization" not in request.headers:
            return 401, [("WWW-Authenticate", 'Basic realm="x"')], ""
        return 200, page, f"<title>{request.path}</title><p>A wolf was seen at {request.path}.</p>"


@dataclass
class Run:
    """A workspace after all commands, and everything they printed."""

    root: Path
    site: ProtectedSite
    webhook: WebhookReceiver
    printed: str
    token: str


def forms(secret: str) -> set[str]:
    """Return a secret plain, URL-encoded, in JSON and in Base64."""
    result = {
        secret,
        quote(secret),
        quote(secret, safe=""),
        secret.replace(" ", "+").replace("&", "%26"),
        json.dumps(secret)[1:-1],
    }
    for before in ("", "x", "xx", "wolf:"):
        encoded = base64.b64encode((before + secret).encode()).decode()
        result.add(encoded[-(-len(before) * 4 // 3) : -4].strip("=") or secret)
    return {each for each in result if len(each) > 6}


def texts_of(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, content) of all files, decompressed and as text."""
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        elif path.suffix == ".parquet":
            content += pl.read_parquet(io.BytesIO(content)).write_ndjson().encode()
        yield str(path.relative_to(root)), content.decode("latin-1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("secrets") / "w"
    Workspace.create(str(root))
    printed: list[str] = []

    def lycosa(*arguments: str, expected: int | None = 0, at: str = str(root)) -> str:
        environment = {
            **os.environ,
            **SECRETS,
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        command = [sys.executable, "-m", "lycosa.cli.main", "-w", at, *arguments]
        output = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=120
        )
        printed.append(f"$ {' '.join(arguments[:1])}\n{output.stdout}\n{output.stderr}")
        assert expected is None or output.returncode == expected, output.stderr
        return output.stdout

    with served_site(ProtectedSite()) as site, webhook_receiver() as webhook:
        here = f"http://127.0.0.1:{site.port}"
        (root / "lycosa.toml").write_text(
            f"""
            [crawl]
            patience = "1s"
            [notify]
            private = ["{webhook.origin.partition("//")[2]}"]
            [[collection]]
            name = "default"
            seeds = ["{here}/", "{here}/basic", "{here}/moved", "{here}/target", "{here}/linked"]
            delay = 0
            auth = [{{ url = "{here}/basic", user = "wolf", password_env = "LYCOSA_TEST_BASIC" }}]
            login = [{{ url = "{here}/login", fields = {{ user = "wolf" }}, password_field = "pass", password_env = "LYCOSA_TEST_FORM" }}]
            """,
            encoding="utf-8",
        )
        webhook.answers.append((500, {}))
        lycosa(
            "watch", "add", "wolf", "--notify", f"webhook {webhook.origin}/hook/{HOOK}?token={HOOK}"
        )
        token = max(re.findall(r"[\w-]{30,}", lycosa("token", "add", "reader")), key=len)
        lycosa("crawl")
        lycosa("crawl", f"http://wolf:{SEED}@127.0.0.1:{site.port}/seeded", expected=0)
        lycosa("status", "--json")
        lycosa("explain", f"http://wolf:{SEED}@127.0.0.1:{site.port}/", expected=0)
        lycosa("status", at=f"s3://wolf:{SEED}@bucket/x", expected=2)
        lycosa("status", at="s3://bucket/x", expected=1)
        yield Run(root, site, webhook, "\n".join(printed), token)


def all_secrets(run: Run) -> dict[str, str]:
    named = {name: value for name, value in SECRETS.items() if "proxy" not in name.lower()}
    return {
        **named,
        "proxy": "MARKproxypass",
        "session": SESSION,
        "hook": HOOK,
        "seed": SEED,
        "token": run.token,
    }


def names_of_secrets_in(text: str, secrets: dict[str, str]) -> set[str]:
    return {name for name, secret in secrets.items() if any(form in text for form in forms(secret))}


def test_secrets_are_sent_to_the_site(run: Run) -> None:
    """Without this, the other tests would prove nothing."""
    sent = {each.path: each.headers for each in run.site.requests}
    assert (
        sent["/basic"]["authorization"]
        == "Basic " + base64.b64encode(f"wolf:{SECRETS['LYCOSA_TEST_BASIC']}".encode()).decode()
    )
    assert SESSION in sent["/target"]["cookie"]
    assert run.webhook.requests
    assert HOOK in forms(HOOK)
    assert names_of_secrets_in(f"Basic {sent['/basic']['authorization']}", all_secrets(run)) == {
        "LYCOSA_TEST_BASIC"
    }


@pytest.mark.proves("access-secrets")
def test_workspace_contains_no_secret(run: Run) -> None:
    """Except the URL of a webhook, in files that only the owner may read."""
    result = {}
    for path, text in texts_of(run.root):
        names = names_of_secrets_in(text, all_secrets(run))
        if names:
            result[path] = names
    print(result)
    for path in list(result):
        if result[path] == {"hook"}:
            assert re.fullmatch(r"watches/.*\.json|run/outbox/.*\.json", path), path
            assert (run.root / path).stat().st_mode & 0o077 == 0, path
            del result[path]
    assert result == {}


@pytest.mark.proves("access-secrets")
def test_output_contains_no_secret(run: Run) -> None:
    assert "wolf" in run.printed
    secrets = {name: secret for name, secret in all_secrets(run).items() if name != "token"}
    print(run.printed)
    assert names_of_secrets_in(run.printed, secrets) == set()
    assert run.printed.count(run.token) == 1  # `token add` shows it, once


@pytest.mark.proves("access-secrets")
def test_responses_contain_no_secret(run: Run) -> None:
    client = Client(create_app(str(run.root), lambda: workspace_status(str(run.root))))
    paths = [
        "/",
        "/search?q=wolf",
        "/status",
        "/crawl",
        "/collection/default",
        "/watches",
        "/api/v1/status",
        "/api/v1/search?q=wolf",
    ]
    paths += [
        "/api/v1/watches",
        "/metrics",
        f"/cached?url=http://127.0.0.1:{run.site.port}/basic",
        "/api/v1/hunts",
        "/nowhere",
    ]
    for path in paths:
        for headers in (
            {},
            {"Authorization": f"Bearer {run.token}"},
            {"Authorization": f"Bearer {run.token}x"},
        ):
            answer = client.get(path, headers=headers)
            text = answer.text + str(dict(answer.headers))
            assert names_of_secrets_in(text, all_secrets(run)) == set(), (path, answer.status_code)


def test_passwords_are_removed_from_page_urls(run: Run) -> None:
    """Only the archived bytes of a page may contain them."""
    for path, text in texts_of(run.root):
        if not path.endswith(".warc.gz"):
            assert LINK not in text, path
            assert REDIRECT not in text, path
    assert {"/linked", "/target"} <= {each.path for each in run.site.requests}
    assert not any(
        "authorization" in each.headers
        for each in run.site.requests
        if each.path in ("/linked", "/target")
    )
