"""Pages that say "not found" with a status that says otherwise."""

from __future__ import annotations

import pytest

from lycosa.frontier.traps.shapes import titled_as_missing


@pytest.mark.parametrize(
    "title",
    [
        *(
            "404",
            "Error 404 - Example",
            "Page Not Found",
            "Seite nicht gefunden",
            "Page introuvable",
            "Página no encontrada",
        ),
        *(
            "Страница не найдена",
            "页面未找到",
            "ページが見つかりません",
            "페이지를 찾을 수 없습니다",
            "الصفحة غير موجودة",
        ),
    ],
)
def test_titles_of_what_is_not_there(title: str) -> None:
    assert titled_as_missing(title)


@pytest.mark.parametrize(
    "title",
    [
        "",
        "Room 4040",
        "The founding of Rome",
        "Lost and found",
        "Peugeot 4047",
        "Neue Gefundene Werke",
    ],
)
def test_other_titles(title: str) -> None:
    assert not titled_as_missing(title)
