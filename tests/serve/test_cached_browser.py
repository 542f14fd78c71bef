"""Cached copies of a hostile page in a real browser: no script runs, no other host is requested."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from lycosa.store.workspace import Workspace
from tests.captures.test_captures import HTML, URL, Capture, archive
from tests.serve.browser import Browser
from tests.serve.conftest import serving
from tests.serve.test_cached import BASE, HOSTILE
from tests.servers.local_http import QuietHandler, serving_handler
from tests.waiting import until

pytestmark = pytest.mark.slow

HOSTILE_URL = f"{BASE}venom"
IMAGE = base64.b64decode("R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==")


class Listener:
    """The server that the hostile page requests; serves it at `/hostile`."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.connections = 0
        self.address, self.page = "", b""


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    server = Listener()

    class Handler(QuietHandler):
        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def do_GET(self) -> None:
            server.paths.append(self.path)
            # A dialogue would block the browser.
            body = server.page.replace(b"alert(1)", b"0") if self.path == "/hostile" else b""
            self.answer(200, body, "text/html")

        do_POST = do_GET

    with serving_handler(Handler) as origin:
        server.address = origin.removeprefix("http://")
        server.page = HOSTILE.replace("127.0.2.9", server.address).encode()
        yield server


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, listener: Listener) -> Iterator[str]:
    """Address of a server over a workspace with the hostile page."""
    workspace = Workspace.create(str(tmp_path_factory.mktemp("venom") / "w"), partitions=4)
    archive(
        workspace,
        [
            Capture(URL, 0, HTML.format("Second block.").encode()),
            Capture(URL, 2, HTML.format("Another block.").encode()),
            Capture(HOSTILE_URL, 0, listener.page),
            Capture(f"{BASE}picture", 0, IMAGE, head="Content-Type: text/html"),
            Capture(
                f"{BASE}svg",
                0,
                b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
                head="Content-Type: image/svg+xml",
            ),
        ],
    )
    with serving(workspace.root) as served:
        yield served


@pytest.fixture
def page(chromium: Browser) -> Browser:
    chromium.set_window(1280, 900)
    chromium.requests.clear()
    chromium.errors.clear()
    return chromium


@pytest.mark.proves("access-cached-copies")
def test_hostile_page_runs_no_script_and_sends_no_request(
    page: Browser, address: str, listener: Listener
) -> None:
    listener.paths.clear()
    listener.connections = 0
    page.open(f"{address}cached?url={quote(HOSTILE_URL, safe='')}")
    assert page.evaluate("document.title").startswith("Cached copy of")
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None
    assert any("/cached/raw?" in url for url in page.requests)
    page.open(f"{address}cached/raw?url={quote(HOSTILE_URL, safe='')}")  # without the frame
    assert page.evaluate("document.title") == ""
    assert page.evaluate("self.origin") == "null"
    assert page.evaluate("document.body.innerText").startswith("Deadly text.")
    # The style sheet of the page applies.
    assert page.evaluate("getComputedStyle(document.querySelector('p')).color") == "rgb(0, 128, 0)"
    page.open(f"{address}healthz")  # any other request would have arrived before this one
    assert (listener.paths, listener.connections) == ([], 0)


@pytest.mark.proves("access-cached-copies")
def test_security_policy_blocks_elements_that_sanitizing_missed(
    page: Browser, address: str
) -> None:
    """The Content Security Policy blocks elements that the test inserts into the copy."""
    page.open(f"{address}cached/raw?url={quote(HOSTILE_URL, safe='')}")
    page.requests.clear()
    page.errors.clear()
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"/static/icon.svg\"><form "
        'action="/"><button>x</button></form>\');'
        "document.body.append(Object.assign(document.createElement('script'), {textContent: "
        "'document.title = \"owned\"'}));"
        "document.forms[0].requestSubmit()"
    )
    assert page.evaluate("document.title") == ""
    assert any("script" in text for text in page.errors)
    assert any("icon.svg" in text for text in page.errors)


def test_links_in_the_copy_open_outside_the_frame(page: Browser, address: str) -> None:
    page.open(f"{address}cached/raw?url={quote(HOSTILE_URL, safe='')}")
    assert page.evaluate("[...document.querySelectorAll('a[href]')].map(link => link.target)") == [
        "_top",
        "_top",
        "",
    ]


def test_raster_image_is_shown_and_svg_is_served_as_text(page: Browser, address: str) -> None:
    page.open(f"{address}cached?url={quote(f'{BASE}picture', safe='')}")
    assert page.evaluate("document.querySelector('main img').naturalWidth") == 1
    page.open(f"{address}cached/raw?url={quote(f'{BASE}svg', safe='')}")
    assert page.evaluate("document.contentType") == "text/plain"


@pytest.mark.parametrize(
    "path",
    [
        "cached?url=a.example/venom",
        "cached?url=a.example/venom&text=1",
        "versions?url=a.example/page",
    ],
)
def test_copies_and_versions_fit_the_window(page: Browser, address: str, path: str) -> None:
    page.set_window(320, 800)
    page.open(f"{address}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_hostile_page_sends_requests_when_it_is_not_sanitized(
    page: Browser, listener: Listener
) -> None:
    """Shows that the first test can fail: the original page requests the other server."""
    listener.paths.clear()
    page.evaluate(f"location.href = 'http://{listener.address}/hostile'")
    until(lambda: {"/script", "/style", "/pixel", "/frame", "/refresh"} <= set(listener.paths))
