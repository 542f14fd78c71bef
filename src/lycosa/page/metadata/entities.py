"""The entity of a page that the page is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from lycosa.core.dataclass import dataclass
from lycosa.page.metadata.linked_data import (
    Entity,
    entities,
    text_of,
    types_of,
    value_of,
)

_ARTICLES_NAMES = """
    AdvertiserContentArticle AnalysisNewsArticle Article AskPublicNewsArticle BackgroundNewsArticle
    BlogPosting DiscussionForumPosting LiveBlogPosting MedicalScholarlyArticle NewsArticle
    OpinionNewsArticle Report ReportageNewsArticle ReviewNewsArticle SatiricalArticle
    ScholarlyArticle SocialMediaPosting TechArticle
    """
ARTICLES = frozenset(_ARTICLES_NAMES.split())
FORUMS = frozenset({"DiscussionForumPosting", "QAPage", "Question"})
PRODUCTS = frozenset(
    {"Product", "ProductGroup", "ProductModel", "IndividualProduct", "Vehicle", "Car"}
)
_PAGES_NAMES = """
    AboutPage CheckoutPage CollectionPage ContactPage FAQPage ItemList ItemPage ProfilePage QAPage
    SearchResultsPage WebPage
    """
PAGES = frozenset(_PAGES_NAMES.split())
_OTHER_SUBJECTS_NAMES = """
    Book Clip Course CreativeWork Dataset Event Game HowTo JobPosting LearningResource
    MobileApplication Movie MusicAlbum MusicRecording PodcastEpisode Question Recipe Review Service
    SoftwareApplication TVEpisode TVSeries VideoGame VideoObject WebApplication
    """
_OTHER_SUBJECTS = frozenset(_OTHER_SUBJECTS_NAMES.split())
_AROUND_NAMES = """
    AggregateRating Answer Brand BreadcrumbList Comment ContactPoint Corporation EntryPoint
    ImageObject ListItem NewsMediaOrganization Offer OnlineStore Organization Person PostalAddress
    Rating SearchAction SiteNavigationElement SpeakableSpecification WPAdBlock WPFooter WPHeader
    WPSideBar WebPageElement WebSite
    """
_AROUND = frozenset(_AROUND_NAMES.split())
_FAMILIES = {"article": ARTICLES - FORUMS, "product": PRODUCTS, "forum": FORUMS}
_SUBJECT, _OTHER, _PAGE, _REST = range(4)


@dataclass(slots=True)
class Subject:
    """The subject of a page. `main`: an article, product …; `page`: the page itself; `by_id`: all
    entities with an identifier; `sites`: the website and organisations.
    """

    main: Entity = field(default_factory=dict)
    page: Entity = field(default_factory=dict)
    by_id: dict[str, Entity] = field(default_factory=dict)
    site: Entity = field(default_factory=dict)
    type: str = ""

    def choose(self, listed: Sequence[Entity], urls: Sequence[str]) -> None:
        """Add the entities of a format."""
        ranked = [(entity, types, _rank(types)) for entity in listed if (types := types_of(entity))]
        if not self.main:
            candidates = [each for each in ranked if each[2] == _SUBJECT]
            candidates = candidates or [each for each in ranked if each[2] == _OTHER]
            chosen = candidates[0] if len(candidates) in (1, 2) else None
            if len(candidates) > 1:
                own = [each for each in candidates if _is_at(each[0], urls)]
                chosen = own[0] if own else chosen
            if chosen is not None:
                self.main, self.type = chosen[0], chosen[1][0]
        for entity, types, rank in ranked:
            if rank == _PAGE and not self.page:
                self.page = entity
                self.type = self.type or types[0]
            elif not self.site and "WebSite" in types:
                self.site = entity


def read_subject(groups: Iterable[Sequence[Entity]], urls: Sequence[str]) -> Subject:
    """Choose the entity that a page is about.

    Args:
        groups: JSON-LD, microdata and RDFa, in the order of trust.
        urls: of the page: that of the request, and the canonical one.
    """
    subject = Subject()
    for values in groups:
        if not values:
            continue
        listed = entities(values)
        for entity in listed:
            identifier = entity.get("@id")
            if isinstance(identifier, str):
                subject.by_id.setdefault(identifier, entity)
        subject.choose(listed, urls)
    return subject


def _rank(types: Sequence[str]) -> int:
    names = set(types)
    if names & ARTICLES or names & PRODUCTS or names & _OTHER_SUBJECTS:
        return _SUBJECT
    if names & PAGES:
        return _PAGE
    return _REST if names & _AROUND else _OTHER


def _is_at(entity: Entity, urls: Sequence[str]) -> bool:
    """Return whether an entity has the URL of the page."""
    page = value_of(entity, "mainEntityOfPage", "url")
    if isinstance(page, dict):
        page = page.get("@id") or page.get("url")
    names = (text_of(page), entity.get("@id"))
    return any(
        isinstance(name, str) and name.partition("#")[0].rstrip("/") in urls for name in names
    )


def type_names(declared: str, page_type: str) -> list[str]:
    """Return the names by which a search finds the type of a page, in lower case.

    Args:
        declared: a type of schema.org, such as BlogPosting, or "".
        page_type: as `lycosa.page.html.page_type`; the family of a declared type overrides it.
    """
    family = next((name for name, types in _FAMILIES.items() if declared in types), page_type)
    return sorted({declared.lower(), family} - {""})
