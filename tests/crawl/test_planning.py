"""What `run` makes of lycosa.toml: good collections, bad ones, seeds, and whom webmasters can
reach.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lycosa.core.errors import ConfigError, UsageError
from lycosa.crawl.session.planning import CrawlPlan, make_plan

GOOD = '[[collection]]\nname = "good"\nseeds = ["http://127.0.0.1/"]\n'


def plan(text: str, *chosen: str, **settings: str) -> CrawlPlan:
    return make_plan(
        text,
        "lycosa.toml",
        chosen=chosen,
        overrides=tuple(f"fetch.{key}={value}" for key, value in settings.items()),
    )


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ('seeds = ["htp:/x"]', "only http, https"),
        ('seeds = ["http://127.0.0.1/", "http://["]', "not a valid URL"),
        ('seed_file = "/nowhere/seeds.txt"', "/nowhere/seeds.txt cannot be read"),
        ('seeds = ["http://127.0.0.1/"]\nallow = ["("]', "not a regular expression"),
        ('seeds = ["http://127.0.0.1/"]\nsedes = 3', "did you mean 'seeds'"),
        ('seeds = ["http://127.0.0.1/"]\nschedule = "nachts"', "HH:MM-HH:MM"),
        ('seeds = ["http://127.0.0.1/"]\nfeed_urls = ["mailto:a@b"]', "only http, https"),
        (f'seeds = ["http://127.0.0.1/{"x" * 3000}"]', "too long"),
        ("depth = 2", "no seeds"),
    ],
)
def test_a_bad_collection_is_left_out_and_the_others_count(bad: str, says: str) -> None:
    made = plan(f'{GOOD}[[collection]]\nname = "bad"\n{bad}\n')
    assert made.names == ["good"]
    assert list(made.bad) == ["bad"]
    assert says in made.bad["bad"]


def test_the_second_of_two_that_share_a_name_is_left_out() -> None:
    made = plan(GOOD + GOOD.replace("127.0.0.1", "127.0.0.2"))
    assert [job.seeds for job in made.jobs] == [("http://127.0.0.1/",)]
    assert "names must differ" in "".join(made.bad.values())


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[[collection]]\nname = "x"\n',
        "[fetch]\nconections = 3\n" + GOOD,
        "[[collection",
        "collection = 3",
    ],
)
def test_nothing_that_can_be_worked_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        plan(text)


def test_chosen_collections() -> None:
    text = GOOD + GOOD.replace("good", "other") + '[[collection]]\nname = "bad"\n'
    assert plan(text, "other").names == ["other"]
    assert plan(text, "other").bad == {}
    with pytest.raises(UsageError, match="did you mean 'other'"):
        plan(text, "othre")
    with pytest.raises(ConfigError, match="no seeds"):
        plan(text, "bad")


def test_seeds_come_from_the_file_too_and_else_from_earlier_calls(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text(
        "http://127.0.0.2/  # the second\n\n# none\nhttp://127.0.0.1/\n"
    )
    text = (
        f'{GOOD}seed_file = "{tmp_path}/seeds"\n[[collection]]\nname = '
        '"old"\n[[collection]]\nname = "any"\nscope = "any"\n'
    )
    before = {"old": {"seeds": ["http://127.0.0.9/"]}, "good": {"seeds": ["http://127.0.0.8/"]}}
    made = make_plan(text, "lycosa.toml", before=before)
    assert {job.collection.name: job.seeds for job in made.jobs} == {
        "good": ("http://127.0.0.1/", "http://127.0.0.2/"),
        "old": ("http://127.0.0.9/",),
        "any": (),
    }


def test_public_hosts_need_a_contact() -> None:
    public = GOOD.replace("127.0.0.1", "www.debian.org")
    with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
        plan(public)
    assert plan(public, contact="https://www.uni-muenster.de/robot").names == ["good"]
    assert plan(public, connect_to='["www.debian.org::127.0.0.1:8000"]').names == ["good"]
    with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
        plan(public, connect_to='["www.debian.org::8.8.8.8:"]')
    with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
        plan(GOOD + 'feed_urls = ["https://www.debian.org/feed"]\n')


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("localhost", False),
        ("a.localhost:8000", False),
        ("10.1.2.3", False),
        ("[::1]:80", False),
        ("0x7f.1", False),
        ("8.8.8.8", True),
        ("[2606:4700::1111]", True),
        ("intranet", True),
    ],
)
def test_what_is_public(host: str, public: bool) -> None:
    text = GOOD.replace("127.0.0.1", host)
    if public:
        with pytest.raises(ConfigError, match=r"fetch\.contact is not set"):
            plan(text)
    else:
        assert plan(text).names == ["good"]
