"""Call all tools with random and hostile arguments.

No call may crash the server or connect to an address that is not allowed.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from lycosa import Workspace
from lycosa.crawl.worker import Limits
from lycosa.fetch.guard import is_public
from lycosa.fetch.transfer import Transfer
from lycosa.mcp.output import NOTICE
from lycosa.mcp.server import McpOptions
from mcp import Client, MCPError
from tests.mcp.conftest import QUICK, address, new_root, run_client
from tests.servers.local_http import QuietHandler, serving_handler

_ODD = [
    *("", " ", "\0", "\x1b[2J\x07", "\u202egnp", "\u200b", "\ufeff", "\U000e0041", "\U0010ffff"),
    *("a" * 20_000, "(" * 5_000, '"' * 999, "é" * 3_000, "%" * 99, "\n" * 50, "𝔘𝔫𝔦", "../../etc"),
    *("null", "[]", "{}", "true", "1e999", "-1", "NaN", "0", "99999999999999999999", "-0.0"),
    *("site:x OR", "NOT", '"unclosed', "title:", "*", "a^9", "2026-13-45", "1", "999", "default"),
]
_TABLE_FUNCTIONS = ("read_csv", "read_parquet", "read_ipc", "read_json", "READ_CSV", '"read_csv"')
_SQL = [
    *("SELECT * FROM pages", "SELECT url FROM urls LIMIT 5", "SELECT 1; DROP TABLE pages", ";"),
    *("DELETE FROM pages", "COPY pages TO '/tmp/x'", "ATTACH '/etc/passwd' AS x", "SELECT"),
    *("CREATE TABLE x AS SELECT 1", "INSERT INTO pages VALUES (1)", "TRUNCATE pages"),
    *("WITH x AS (SELECT * FROM x) SELECT * FROM x", "EXPLAIN SELECT * FROM links"),
    *("SELECT * FROM generate_series(1, 9999999999)", "SELECT count(*) FROM links GROUP BY url"),
    *("SHOW TABLES", "SELECT CAST(url AS INT) FROM pages", "SELECT 1/0", "SELECT * FROM '/etc'"),
    "SELECT a.source FROM links a CROSS JOIN links b CROSS JOIN links c CROSS JOIN links d",
]

_WEIGHTS = {"crawl_site": 0.15, "focused_crawl": 0.15, "sql": 0.7}
"""Share of slow tools among the calls; 1 for all others."""


class _Secret(QuietHandler):
    """Server that must receive no request."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.answer(200, b"the secret")

    do_POST = do_HEAD = do_GET


class _Redirects(QuietHandler):
    """An allowed site that links and redirects to the forbidden server."""

    secret = ""

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            self.answer(404)
        elif self.path.startswith("/to"):
            self.answer(302, Location=f"{self.secret}{self.path}")
        else:
            links = f'<a href="{self.secret}/link">x</a> <a href="/to/{self.path[1:9]}">y</a>'
            self.answer(200, f"<title>Page</title><p>Words of a page.</p>{links}".encode())


class Calls:
    """Generate random calls of tools from their schemas."""

    def __init__(self, tools: list[Any], urls: list[str], seed: int) -> None:
        self._tools = tools
        self._urls = urls
        self._random = random.Random(seed)
        self._weights = [_WEIGHTS.get(tool.name, 1.0) for tool in tools]

    def next(self) -> tuple[str, dict[str, Any]]:
        """Return a tool and its arguments."""
        (tool,) = self._random.choices(self._tools, self._weights)
        schema = tool.input_schema
        properties = schema["properties"]
        arguments = {
            name: self._value(name, part, schema)
            for name, part in properties.items()
            if name in schema.get("required", ()) or self._random.random() < 0.4
        }
        if self._random.random() < 0.05:
            arguments[self._text()[:50]] = self._any()
        if arguments and self._random.random() < 0.05:
            del arguments[self._random.choice([*arguments])]
        if tool.name in ("crawl_site", "focused_crawl"):
            arguments["max_seconds"] = 1
        return tool.name, arguments

    def _value(self, name: str, schema: dict[str, Any], root: dict[str, Any]) -> Any:
        if self._random.random() < 0.08:
            return self._any()
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        if "anyOf" in schema:
            return self._value(name, self._random.choice(schema["anyOf"]), root)
        match schema.get("type"):
            case "integer":
                return self._integer(schema)
            case "boolean":
                return self._random.random() < 0.5
            case "array":
                length = self._random.choice([0, 1, 1, 2, 3, schema.get("maxItems", 9) + 1])
                return [self._value(name, schema["items"], root) for _ in range(length)]
            case "string":
                return self._string(name)
        return None

    def _integer(self, schema: dict[str, Any]) -> int:
        low: int = schema.get("minimum", 0)
        high: int = schema.get("maximum", 1_000)
        edges = [low, high, low - 1, high + 1, -(2**63), 2**70]
        return self._random.choice([*edges, *(self._random.randint(low, high) for _ in range(8))])

    def _string(self, name: str) -> str:
        choice = self._random.random()
        if choice < 0.15:
            return self._text()
        if name in ("url", "seeds", "site"):
            return self._random.choice(self._urls)
        if name == "query" and choice < 0.7:
            return self._query()
        return self._random.choice(["spider", "wolf", "Words of a page", "default", *_ODD])

    def _query(self) -> str:
        if self._random.random() < 0.4:
            function = self._random.choice(_TABLE_FUNCTIONS)
            space = self._random.choice(["", " ", "\n", "/**/", "/* ' */", "--x\n", "\u3000"])
            place = self._random.choice([*self._urls, "/etc/passwd", "/proc/self/environ"])
            return f"SELECT * FROM {function}{space}('{place}')"
        return self._random.choice(_SQL)

    def _text(self) -> str:
        if self._random.random() < 0.6:
            return self._random.choice(_ODD)
        alphabet = string.printable + "".join(map(chr, range(0x80, 0x200))) + "\u2028あ𝔘"
        return "".join(self._random.choices(alphabet, k=self._random.randint(0, 200)))

    def _any(self) -> Any:
        nested: Any = 1
        for _ in range(50):
            nested = [nested]
        values = [None, True, -1, 1.5, 10**30, [], {}, {"a": [None]}, nested, self._text(), [""]]
        return self._random.choice(values)


def _private_urls(port: str, allowed: str) -> list[str]:
    """Return URLs of private addresses in many notations.

    Some URLs are of the allowed address.
    """
    hosts = [
        *("127.0.0.1", "localhost", "0x7f.1", "2130706433", "017700000001", "127.1", "[::1]"),
        *("[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.1.", "LOCALHOST", "user@127.0.0.1"),
        *("①②⑦.⓪.⓪.①", "169.254.169.254", "10.0.0.1", "192.168.1.1", "[fd00::1]", "[fe80::1]"),
    ]
    urls = [f"http://{host}:{port}/" for host in hosts]
    schemes = ["file:///etc/passwd", f"ftp://127.0.0.1:{port}/", f"gopher://127.0.0.1:{port}/x"]
    schemes += [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://",
        "//",
        "http://[",
        "lycosa://x",
    ]
    metadata = ["http://169.254.169.254/latest/meta-data/", "http://metadata.localhost/"]
    own = [f"{allowed}/", f"{allowed}/to/1", f"{allowed}/page", f"{allowed}/x?y=#z", f"{allowed}/é"]
    return [*urls, *schemes, *metadata, *own, *own, f"127.0.0.1:{port}"]


@pytest.fixture
def connected_addresses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Addresses to which sockets were opened."""
    addresses: list[tuple[str, int]] = []
    original = Transfer.open_socket

    def open_socket(self: Transfer, purpose: int, target: Any) -> Any:
        opened = original(self, purpose, target)
        if opened not in (-1, None):
            addresses.append(target.addr[:2])
        return opened

    monkeypatch.setattr(Transfer, "open_socket", open_socket)
    return addresses


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[tuple[McpOptions, list[str], list[str]]]:
    """Options of a server with all tools, and URLs for its calls.

    The last value lists the requests to the forbidden server.
    """
    secret_requests: list[str] = []
    secret_handler = type("Secret", (_Secret,), {"requests": secret_requests})
    with serving_handler(secret_handler) as secret:
        site_handler = type("Site", (_Redirects,), {"secret": secret})
        with serving_handler(site_handler, "127.0.0.2") as site:
            quick = (*QUICK, "crawl.patience=0s", "fetch.retries=0", "fetch.first_byte_timeout=1s")
            workspace = Workspace(
                new_root(tmp_path),
                (*quick, f'fetch.connect_to=["{address(site)}:{address(site)}"]'),
            )
            workspace.crawl(f"{site}/page", max_pages=1)
            options = McpOptions(
                workspace.root,
                quick,
                allow_fetch=True,
                allow_crawl=True,
                allow_private=[address(site)],
                limits=Limits(3, 1_000),
            )
            yield options, _private_urls(secret.rpartition(":")[2], site), secret_requests


def _run_calls(options: McpOptions, urls: list[str], calls: int, seed: int) -> Counter[str]:
    """Run the calls. Return the number of successful, failed and refused ones."""
    outcomes: Counter[str] = Counter()

    async def script(client: Client) -> None:
        generated = Calls((await client.list_tools()).tools, urls, seed)
        for _ in range(calls):
            tool, arguments = generated.next()
            try:
                with anyio.fail_after(60):
                    answer = await client.session.call_tool(tool, arguments)
            except MCPError:
                outcomes["refused"] += 1
                continue
            text = answer.content[0].text  # type: ignore[union-attr]
            shown = f"{tool}({arguments!r:.500})"
            assert "root:x:0" not in text, shown
            assert "the secret" not in text, shown
            if answer.is_error:
                # An unexpected exception has no text after the name of the tool.
                assert text.startswith(f"Error executing tool {tool}: "), shown
                assert "a crawl of this server is running" not in text, shown
                outcomes["failed"] += 1
            else:
                assert NOTICE in text, shown
                outcomes["worked"] += 1
            outcomes[tool] += 1
        answer = await client.call_tool("list_collections", {})
        assert not answer.is_error

    run_client(options, script)
    return outcomes


@pytest.mark.proves("access-mcp-addresses")
@pytest.mark.parametrize(
    "calls", [500, pytest.param(10_000, marks=pytest.mark.prove)], ids=["short", "long"]
)
def test_calls_never_crash_or_bypass_the_address_guard(
    calls: int,
    fuzzed: tuple[McpOptions, list[str], list[str]],
    connected_addresses: list[tuple[str, int]],
) -> None:
    options, urls, secret_requests = fuzzed
    allowed = options.allow_private[0].split(":")
    outcomes = _run_calls(options, urls, calls, seed=27)
    assert min(outcomes["worked"], outcomes["failed"]) > calls // 10
    assert len(outcomes) >= 12  # every tool
    assert secret_requests == []
    assert connected_addresses
    assert {each for each in connected_addresses if not is_public(each[0])} == {
        (allowed[0], int(allowed[1]))
    }
