"""The template `news27`: a configuration for news in 27 languages.

Each language has a seed file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from lycosa.commands.crawling.news27 import LANGUAGES, SITES, Site
from lycosa.config.reading import parse_config
from lycosa.config.settings import Collection
from lycosa.config.template import configuration_template, setting_lines, toml_value
from lycosa.url.domain import Domains, bundled_suffix_list

SEEDS = "seeds"
_SPREAD_MINUTES = 24 * 60 // len(LANGUAGES)  # between two collections' daily times
_SECTION = re.compile(r"^/([a-z0-9-]+)/?$")
_GLOBAL = """# Media and government sites in 27 languages, one collection per language,
# named by its ISO code. Entire sites are crawled: no page quota, no depth limit.
# `lycosa status` shows what traps and limits excluded.
# Before the first `lycosa run`, set contact in [fetch], so that webmasters can reach you.

"""


def news_template() -> tuple[str, dict[str, str]]:
    """Return lycosa.toml and the seed files of its folder `SEEDS` by name."""
    domains = Domains(bundled_suffix_list())
    head, _, _ = configuration_template().partition("# A collection is a set of seeds")
    parts = [_GLOBAL + head.rstrip() + "\n"]
    files = {}
    for number, (code, name) in enumerate(LANGUAGES.items()):
        files[f"{code}.txt"] = _seed_file(name, SITES[code])
        parts.append(_collection(number, code, name, domains))
    example = "\n".join(setting_lines(Collection, Collection()))
    parts.append(f"# All other settings of a collection, with their defaults:\n\n{example}")
    text = "\n".join(parts)
    parse_config(text)
    return text, files


def seeds_of(code: str) -> list[str]:
    """Return the usable home pages of a language."""
    return [site.home for site in SITES[code] if site.home and not site.note]


def _seed_file(name: str, sites: Sequence[Site]) -> str:
    lines = [
        f"# {name}: one URL per line. Remove the # from a line after you have checked the URL."
    ]
    for site in sites:
        remark = f" # {site.name}"
        if site.note or not site.home:
            lines.append(
                f"# {site.home or '(home page unknown)'}{remark} ({site.note or 'unsure'})"
            )
        else:
            lines.append(site.home + remark)
    return "\n".join(lines) + "\n"


def _collection(number: int, code: str, name: str, domains: Domains) -> str:
    hours, minutes = divmod(number * _SPREAD_MINUTES, 60)
    settings: dict[str, object] = {
        "name": code,
        "language": code,
        "accept_language": _accepts(code),
        "seed_file": f"{SEEDS}/{code}.txt",
        "scope": "domain",
        "delay": "2s",
        "connections_per_host": 1,
        "domain_connections": 2,
        "recrawl": "daily",
        "daily_at": f"{hours:02d}:{minutes:02d}",
    }
    denied = _other_sections(seeds_of(code), domains)
    if denied:
        settings["deny"] = denied
    lines = [f"{key} = {_toml(value)}" for key, value in settings.items()]
    return f"# {name}\n[[collection]]\n" + "\n".join(lines) + "\n"


def _accepts(code: str) -> str:
    return code if code == "en" else f"{code}, en;q=0.3"


def _toml(value: object) -> str:
    """Return a value as TOML; lists of regular expressions as literal strings."""
    if isinstance(value, list) and any("\\" in item for item in value):
        return "[\n" + "".join(f"  '{item}',\n" for item in value) + "]"
    return toml_value(value)


def _other_sections(seeds: Sequence[str], domains: Domains) -> list[str]:
    """Return patterns that exclude other sections of sites.

    They apply to sites of which the seeds are only sections, such as `bbc.com/hindi`.
    """
    sections: dict[str, set[str]] = {}
    whole = set()
    for seed in seeds:
        parts = urlsplit(seed)
        domain = domains.registrable(parts.hostname or "")
        section = _SECTION.match(parts.path)
        if section:
            sections.setdefault(domain, set()).add(section[1])
        else:
            whole.add(domain)
    listed = {domain: "|".join(map(re.escape, sorted(names))) for domain, names in sections.items()}
    return [
        rf"^https?://([^/?#]+\.)?{re.escape(domain)}(:\d+)?/(?!({names})([/?#]|$))"
        for domain, names in listed.items()
        if domain not in whole
    ]
