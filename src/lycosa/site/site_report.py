"""A site's report over a workspace, while merges may take its files away."""

from __future__ import annotations

from dataclasses import replace

from lycosa.config.settings import Config
from lycosa.core.errors import UsageError
from lycosa.hooks.plugins import installed_plugins
from lycosa.site.links import FoundLink, links_between
from lycosa.site.report import SiteReport, Thresholds, site_report
from lycosa.site.sitemap_entries import Archive
from lycosa.store.tables.live import read_live
from lycosa.store.workspace import Workspace
from lycosa.url.normalise import normalise, typed_url
from lycosa.url.site_name import site_name


def report_of(
    root: str, site: str, thresholds: Thresholds | None = None, config: Config | None = None
) -> SiteReport:
    """The report of a site, named as people type it. `config` bounds what is unpacked of archived
    sitemaps.

    Raises:
        UsageError: it names no host, or one of which nothing is known.
        WorkError: table files were deleted repeatedly while they were read.
    """
    name = site_name(site)
    archive = Archive(Workspace.open(root).path, (config or Config()).fetch.max_decoded)
    report = read_live(root, lambda tables: site_report(tables, name, archive, thresholds))
    if not report.urls:
        raise UsageError(
            f"no data about {report.site}; list the known hosts with `lycosa status --by host`"
        )
    sections = installed_plugins().merged("report_rendered", site=report.site, report=report)
    return replace(report, sections=sections)


def links_of(root: str, to: str, source: str, *, broken: bool, site: str) -> list[FoundLink]:
    """Links to a URL, from a URL, both, or the broken ones (of one site or of all).

    Raises:
        UsageError: one of them is no URL.
        WorkError: table files were deleted repeatedly while they were read.
    """
    given = [normalise(typed_url(each)) if each else "" for each in (to, source)]
    name = site_name(site) if site else None
    return read_live(
        root, lambda tables: links_between(tables, given[0], given[1], broken=broken, site=name)
    )
