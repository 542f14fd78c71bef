"""Which contacts lead to somebody."""

from __future__ import annotations

import pytest

from lycosa.url.contact import CONTACT_NEEDED, is_reachable_contact

REACHABLE = (
    "robots@library.edu",
    "mailto:robots@library.edu",
    "Robots <robots@news.library.edu>",
    "müller@bücher.de",
    "https://library.edu/robot",
    "http://library.edu",
    "https://library.edu:8443/robot?lang=de",
    "https://xn--bcher-kva.de/",
    "https://bücher.de/",
    "see https://library.edu/robot, please",
)
NOBODY = (
    "",
    "library",
    "library.edu",
    "robots@",
    "@library.edu",
    "robots@localhost",
    "robots@10.0.0.1",
    "https://127.0.0.1/robot",
    "https://[::1]/",
    "https://localhost/",
    "https:///robot",
    "ftp://library.edu/robot",
    "you@example.org",
    "https://www.example.com/robot",
    "https://newsroom.example/robot",
    "me@machine.local",
    "a@b@library.edu",
    "x@" * 50_000,
)


@pytest.mark.parametrize("contact", REACHABLE)
def test_a_url_or_a_mail_address_of_somebody(contact: str) -> None:
    assert is_reachable_contact(contact, "lycosa/0.1")
    assert is_reachable_contact("", f"LibraryBot/2 (+{contact})")


@pytest.mark.parametrize("contact", NOBODY)
def test_what_leads_to_nobody(contact: str) -> None:
    assert not is_reachable_contact(contact, "lycosa/0.1")
    assert not is_reachable_contact("", f"LibraryBot/2 (+{contact})")


def test_one_that_is_right_is_enough() -> None:
    assert is_reachable_contact("you@example.org", "LibraryBot/2 (+https://library.edu/robot)")


def test_the_error_shows_what_to_write() -> None:
    lines = CONTACT_NEEDED.splitlines()
    assert "fetch.contact" in lines[0]
    assert is_reachable_contact(next(line for line in lines if "contact =" in line), "")
