"""A hostile page in the archive, shown in a real browser: it runs nothing and asks nobody but
us.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from lycosa.store.workspace import Workspace
from tests.captures.test_captures import HTML, URL, Taken, archive
from tests.serve.browser import Browser
from tests.serve.conftest import serving
from tests.serve.test_cached import BASE, HOSTILE
from tests.servers.local_http import QuietHandler, serving_handler
from tests.waiting import until

pytestmark = pytest.mark.slow

VENOM = f"{BASE}venom"
FRAMES = "document.querySelector('iframe')"
PICTURE = base64.b64decode("R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==")


class Listener:
    """Where a hostile page wants its requests to go. `asked`: paths; `page` is the page itself,
    which it serves at `/hostile`.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.connections = 0
        self.address, self.page = "", b""


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    found = Listener()

    class Handler(QuietHandler):
        def setup(self) -> None:
            super().setup()
            found.connections += 1

        def do_GET(self) -> None:
            found.asked.append(self.path)
            # a dialogue would hold the browser up
            body = found.page.replace(b"alert(1)", b"0") if self.path == "/hostile" else b""
            self.answer(200, body, "text/html")

        do_POST = do_GET

    with serving_handler(Handler) as origin:
        found.address = origin.removeprefix("http://")
        found.page = HOSTILE.replace("127.0.2.9", found.address).encode()
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, listener: Listener) -> Iterator[str]:
    """The real server over a workspace with a hostile page."""
    workspace = Workspace.create(str(tmp_path_factory.mktemp("venom") / "w"), partitions=4)
    archive(
        workspace,
        [
            Taken(URL, 0, HTML.format("Second block.").encode()),
            Taken(URL, 2, HTML.format("Another block.").encode()),
            Taken(VENOM, 0, listener.page),
            Taken(f"{BASE}picture", 0, PICTURE, head="Content-Type: text/html"),
            Taken(
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
    chromium.look(1280, 900)
    chromium.asked.clear()
    chromium.errors.clear()
    return chromium


@pytest.mark.proves("access-cached-copies")
def test_a_hostile_page_runs_nothing_and_asks_nobody(
    page: Browser, address: str, listener: Listener
) -> None:
    listener.asked.clear()
    listener.connections = 0
    page.open(f"{address}cached?url={quote(VENOM, safe='')}")
    assert page.evaluate("document.title").startswith("Cached copy of")
    assert page.evaluate(f"{FRAMES}.contentDocument") is None  # an origin of its own
    assert any("/cached/raw?" in url for url in page.asked)
    page.open(f"{address}cached/raw?url={quote(VENOM, safe='')}")  # without our frame
    assert page.evaluate("document.title") == ""
    assert page.evaluate("self.origin") == "null"
    assert page.evaluate("document.body.innerText").startswith("Deadly text.")
    # its own style is there
    assert page.evaluate("getComputedStyle(document.querySelector('p')).color") == "rgb(0, 128, 0)"
    page.open(f"{address}healthz")  # by now what was asked for would have come
    assert (listener.asked, listener.connections) == ([], 0)


@pytest.mark.proves("access-cached-copies")
def test_the_policy_holds_even_where_the_cleaning_failed(page: Browser, address: str) -> None:
    """What is put into the document by force is stopped by the policy that came with it."""
    page.open(f"{address}cached/raw?url={quote(VENOM, safe='')}")
    page.asked.clear()
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


def test_a_link_in_the_copy_leads_out_of_the_frame(page: Browser, address: str) -> None:
    page.open(f"{address}cached/raw?url={quote(VENOM, safe='')}")
    assert page.evaluate("[...document.querySelectorAll('a[href]')].map(link => link.target)") == [
        "_top",
        "_top",
        "",
    ]


def test_a_picture_is_a_picture_and_a_drawing_is_text(page: Browser, address: str) -> None:
    page.open(f"{address}cached?url={quote(f'{BASE}picture', safe='')}")
    assert page.evaluate("document.querySelector('main img').naturalWidth") == 1
    page.open(f"{address}cached/raw?url={quote(f'{BASE}svg', safe='')}")
    assert page.evaluate("document.contentType") == "text/plain"


@pytest.mark.parametrize("width", [320])
@pytest.mark.parametrize(
    "path",
    [
        "cached?url=a.example/venom",
        "cached?url=a.example/venom&text=1",
        "versions?url=a.example/page",
    ],
)
def test_fits_the_window(page: Browser, address: str, path: str, width: int) -> None:
    page.look(width, 800)
    page.open(f"{address}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_same_page_unprotected_does_its_worst(page: Browser, listener: Listener) -> None:
    """That the first test can fail: as the site serves it, the page asks for all kinds of
    things.
    """
    listener.asked.clear()
    page.evaluate(f"location.href = 'http://{listener.address}/hostile'")
    until(lambda: {"/script", "/style", "/pixel", "/frame", "/refresh"} <= set(listener.asked))
