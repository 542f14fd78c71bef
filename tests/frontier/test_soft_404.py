"""Pages that say "not found" with a status that says otherwise."""

from __future__ import annotations

import pytest

from lycosa.frontier.soft_404 import is_soft_404, looks_not_found, soft_404_probe
from lycosa.text.digest import simhash
from lycosa.url.normalise import normalise

SORRY = "We are sorry. The page that you were looking for does not exist any more, or it never did. Try the search, or the front page."
STORY = "The council met on Monday to talk about the bridge. It will be mended in spring, and until then the ferry goes twice an hour."


def test_the_probe_is_the_same_for_a_host_and_a_seed() -> None:
    paths = {soft_404_probe("a.example", 1), soft_404_probe("b.example", 1), soft_404_probe("a.example", 2)}
    assert len(paths) == 3
    assert soft_404_probe("a.example", 1) in paths
    for path in paths:
        assert normalise(f"http://a.example{path}") == f"http://a.example{path}"


def test_what_says_the_same_as_the_probe_is_not_there() -> None:
    sorry, story = simhash(SORRY), simhash(STORY)
    assert is_soft_404(sorry, sorry, len(SORRY), len(SORRY))
    assert not is_soft_404(story, sorry, len(STORY), len(SORRY))
    assert not is_soft_404(sorry, sorry, 10 * len(SORRY), len(SORRY)), "a long page with the same main text"
    assert not is_soft_404(0, 0, 0, 0), "pages without text"


def test_a_title_lets_the_text_differ_more() -> None:
    page = 0b111111 ^ simhash(SORRY)
    assert not is_soft_404(page, simhash(SORRY), 100, 100, "Bridge mended")
    assert is_soft_404(page, simhash(SORRY), 100, 100, "Page not found | Example")


@pytest.mark.parametrize(
    "title",
    [
        *("404", "Error 404 - Example", "Page Not Found", "Seite nicht gefunden", "Page introuvable", "Página no encontrada"),
        *("Страница не найдена", "页面未找到", "ページが見つかりません", "페이지를 찾을 수 없습니다", "الصفحة غير موجودة"),
    ],
)
def test_titles_of_what_is_not_there(title: str) -> None:
    assert looks_not_found(title)


@pytest.mark.parametrize("title", ["", "Room 4040", "The founding of Rome", "Lost and found", "Peugeot 4047", "Neue Gefundene Werke"])
def test_other_titles(title: str) -> None:
    assert not looks_not_found(title)
