"""News and government sites in 27 languages for the template `news27`.

A 2011 list of mainstream media and governments, with home pages of 2026 from memory. Sites that are
no longer published are omitted.
"""

from __future__ import annotations

from typing import NamedTuple


class Site(NamedTuple):
    """One site. `home`: "" if unknown.

    `note`: "", `moved` (name or owner changed) or `unsure` (the name is ambiguous).
    """

    name: str
    home: str
    note: str = ""


LANGUAGES: dict[str, str] = {
    "zh": "Chinese",
    "en": "English",
    "ja": "Japanese",
    "ko": "Korean",
    "de": "German",
    "ur": "Urdu",
    "fr": "French",
    "ru": "Russian",
    "es": "Spanish",
    "pt": "Portuguese",
    "ar": "Arabic",
    "hi": "Hindi",
    "it": "Italian",
    "id": "Indonesian",
    "ms": "Malay",
    "my": "Burmese",
    "fa": "Persian",
    "vi": "Vietnamese",
    "mn": "Mongolian",
    "kk": "Kazakh",
    "ky": "Kyrgyz",
    "ne": "Nepali",
    "tl": "Filipino",
    "ps": "Pashto",
    "lo": "Lao",
    "tg": "Tajik",
    "bo": "Tibetan",
}
"""ISO 639-1 code -> English name, in the order of the list."""

SITES: dict[str, tuple[Site, ...]] = {
    "zh": (
        Site("中国政府网", "https://www.gov.cn/"),
        Site("新华网", "http://www.news.cn/", "moved"),
        Site("中国新闻网", "https://www.chinanews.com.cn/"),
        Site("台海网", "http://www.taihainet.com/"),
        Site("中国经济网", "http://www.ce.cn/"),
        Site("中国台湾网", "http://www.taiwan.cn/"),
        Site("凤凰网", "https://www.ifeng.com/"),
        Site("搜狐新闻", "https://news.sohu.com/"),
        Site("央视网", "https://www.cctv.com/"),
    ),
    "en": (
        Site("US government", "https://www.usa.gov/"),
        Site("Central Intelligence Agency", "https://www.cia.gov/"),
        Site("National Security Agency", "https://www.nsa.gov/"),
        Site("UK government", "https://www.gov.uk/"),
        Site("The Royal Family", "https://www.royal.uk/"),
        Site("Time", "https://time.com/"),
        Site("The New York Times", "https://www.nytimes.com/"),
        Site("U.S. News & World Report", "https://www.usnews.com/"),
        Site("Associated Press", "https://apnews.com/"),
        Site("BBC", "https://www.bbc.com/news"),
        Site("The Times", "https://www.thetimes.com/"),
        Site("Reuters", "https://www.reuters.com/"),
        Site("CNN", "https://www.cnn.com/"),
        Site("ABC News", "https://abcnews.go.com/", "unsure"),
        Site("Australian Government", "https://www.australia.gov.au/"),
        Site("Government of Canada", "https://www.canada.ca/en.html"),
        Site("Department of the Prime Minister and Cabinet (Australia)", "https://www.pmc.gov.au/"),
    ),
    "ja": (
        Site("内閣府", "https://www.cao.go.jp/"),
        Site("外務省", "https://www.mofa.go.jp/mofaj/"),
        Site("読売新聞", "https://www.yomiuri.co.jp/"),
        Site("朝日新聞", "https://www.asahi.com/"),
        Site("日本経済新聞", "https://www.nikkei.com/"),
        Site("NHKニュース", "https://www3.nhk.or.jp/news/"),
        Site("共同通信社", "https://www.kyodonews.jp/"),
        Site("MSN Japan", "https://www.msn.com/ja-jp"),
        Site("時事通信社", "https://www.jiji.com/"),
        Site("日本証券新聞", "https://www.nsjournal.jp/"),
        Site("ライブドア", "https://news.livedoor.com/"),
    ),
    "ko": (
        Site("조선일보", "https://www.chosun.com/", "unsure"),
        Site("연합뉴스", "https://www.yna.co.kr/"),
        Site("KBS", "https://news.kbs.co.kr/"),
        Site("조선중앙통신", "http://www.kcna.kp/"),
        Site("MBC", "https://imnews.imbc.com/"),
        Site("종합일보", "", "unsure"),
        Site("스포츠서울", "https://www.sportsseoul.com/"),
        Site("Scout", "", "unsure"),
        Site("오마이뉴스", "https://www.ohmynews.com/"),
        Site("이데일리", "https://www.edaily.co.kr/"),
        Site("SBS", "https://news.sbs.co.kr/"),
    ),
    "de": (
        Site("Bundesregierung", "https://www.bundesregierung.de/"),
        Site("Der Spiegel", "https://www.spiegel.de/"),
        Site("Bild", "https://www.bild.de/"),
        Site("Die Welt", "https://www.welt.de/"),
        Site("Rheinische Post", "https://rp-online.de/"),
        Site("Focus", "https://www.focus.de/"),
        Site("Frankfurter Allgemeine", "https://www.faz.net/"),
        Site("Hamburger Morgenpost", "https://www.mopo.de/"),
        Site("Stuttgarter Zeitung", "https://www.stuttgarter-zeitung.de/"),
        Site("Berliner Morgenpost", "https://www.morgenpost.de/"),
        Site("Süddeutsche Zeitung", "https://www.sueddeutsche.de/"),
        Site("Leipziger Volkszeitung", "https://www.lvz.de/"),
    ),
    "ur": (
        Site("ایسوسی ایٹڈ پریس آف پاکستان", "https://www.app.com.pk/urdu/"),
        Site("خبریں", "https://dailykhabrain.com.pk/"),
        Site("حکومت پاکستان", "https://www.pakistan.gov.pk/"),
        Site("Daily Times", "https://dailytimes.com.pk/"),
        Site("BBC اردو", "https://www.bbc.com/urdu"),
    ),
    "fr": (
        Site("Ministère des Affaires étrangères", "https://www.diplomatie.gouv.fr/"),
        Site("Le Monde", "https://www.lemonde.fr/"),
        Site("Le Figaro", "https://www.lefigaro.fr/"),
        Site("Agence France-Presse", "https://www.afp.com/fr"),
        Site("Le Point", "https://www.lepoint.fr/"),
        Site("Les Échos", "https://www.lesechos.fr/"),
        Site("L'Humanité", "https://www.humanite.fr/"),
        Site("Ouest-France", "https://www.ouest-france.fr/"),
        Site("Sipa Press", "https://www.sipa.com/"),
        Site("Dernières Nouvelles d'Alsace", "https://www.dna.fr/"),
    ),
    "ru": (
        Site("Правительство России", "http://government.ru/"),
        Site("Газета.Ru", "https://www.gazeta.ru/"),
        Site("Комсомольская правда", "https://www.kp.ru/"),
        Site("ТАСС", "https://tass.ru/", "moved"),
        Site("Полит.ру", "https://polit.ru/", "unsure"),
        Site("РИА Новости", "https://ria.ru/"),
        Site("Росбалт", "https://www.rosbalt.ru/", "unsure"),
        Site("Интерфакс", "https://www.interfax.ru/"),
    ),
    "es": (
        Site("La Moncloa", "https://www.lamoncloa.gob.es/"),
        Site("El Mundo", "https://www.elmundo.es/"),
        Site("El País", "https://elpais.com/"),
        Site("Agencia EFE", "https://efe.com/"),
        Site("El Periódico de Catalunya", "https://www.elperiodico.com/"),
    ),
    "pt": (
        Site("Governo do Brasil", "https://www.gov.br/"),
        Site("Itamaraty", "https://www.gov.br/mre/pt-br"),
        Site("Governo de Portugal", "https://www.portugal.gov.pt/"),
        Site("O Globo", "https://oglobo.globo.com/"),
        Site("Folha de S.Paulo", "https://www.folha.uol.com.br/"),
        Site("Agência Brasil", "https://agenciabrasil.ebc.com.br/"),
        Site("Expresso", "https://expresso.pt/"),
        Site("Lusa", "https://www.lusa.pt/"),
        Site("Banco de Moçambique", "https://www.bancomoc.mz/"),
        Site("República de Moçambique", "https://www.portaldogoverno.gov.mz/"),
    ),
    "ar": (
        Site("الجزيرة", "https://www.aljazeera.net/"),
        Site("Arab newspapers' union site", "", "unsure"),
        Site("الشرق الأوسط", "https://aawsat.com/", "unsure"),
        Site("القدس", "https://www.alquds.com/"),
        Site("ميدل ايست اونلاين", "https://middle-east-online.com/", "unsure"),
        Site("وكالة الأنباء السعودية", "https://www.spa.gov.sa/"),
        Site("وزارة الإعلام (عُمان)", "https://www.omaninfo.om/"),
        Site("بلدية دبي", "https://www.dm.gov.ae/"),
        Site("وكالة الأنباء الجزائرية", "https://www.aps.dz/ar/"),
        Site("وزارة الشؤون الخارجية (الجزائر)", "https://www.mfa.gov.dz/ar"),
    ),
    "hi": (
        Site("BBC हिंदी", "https://www.bbc.com/hindi"),
        Site("Oneindia हिंदी", "https://hindi.oneindia.com/"),
        Site("बिज़नेस स्टैंडर्ड", "https://hindi.business-standard.com/"),
        Site("television (福禄门电视台)", "", "unsure"),
        Site("आज तक (India Today)", "https://www.aajtak.in/"),
        Site("नवभारत टाइम्स", "https://navbharattimes.indiatimes.com/", "unsure"),
    ),
    "it": (
        Site("ANSA", "https://www.ansa.it/"),
        Site("Il Sole 24 Ore", "https://www.ilsole24ore.com/"),
        Site("Milano Finanza", "https://www.milanofinanza.it/", "unsure"),
        Site("Corriere della Sera", "https://www.corriere.it/"),
        Site("Governo italiano", "https://www.governo.it/"),
    ),
    "id": (
        Site("Pemerintah Indonesia", "https://indonesia.go.id/"),
        Site("Antara", "https://www.antaranews.com/"),
        Site("Republika", "https://www.republika.co.id/"),
        Site("TVRI", "https://tvri.go.id/"),
    ),
    "ms": (
        Site("Kerajaan Malaysia", "https://www.malaysia.gov.my/"),
        Site("Kementerian Luar Negeri", "https://www.kln.gov.my/"),
        Site("Utusan Malaysia", "https://www.utusan.com.my/"),
    ),
    "my": (
        Site("မြန်မာအစိုးရ", "https://myanmar.gov.mm/"),
        Site("Independent Mon News Agency", "https://monnews.org/"),
    ),
    "fa": (
        Site("وزارت امور خارجه", "https://mfa.gov.ir/"),
        Site("ایرنا", "https://www.irna.ir/"),
        Site("صدا و سیما", "https://www.iribnews.ir/"),
    ),
    "vi": (
        Site("Chính phủ Việt Nam", "https://www.chinhphu.vn/"),
        Site("VietnamPlus (TTXVN)", "https://www.vietnamplus.vn/"),
        Site("Thông tấn xã Việt Nam", "https://vnanet.vn/"),
        Site("24h", "https://www.24h.com.vn/"),
    ),
    "mn": (
        Site("Монгол Улсын Засгийн газар", "https://zasag.mn/"),
        Site("Монцамэ", "https://montsame.mn/mn/"),
    ),
    "kk": (
        Site("Қазақстан Үкіметі", "https://www.gov.kz/?lang=kk"),
        Site("ҚР Сыртқы істер министрлігі", "https://www.gov.kz/memleket/entities/mfa?lang=kk"),
        Site("Казахстанская правда", "https://kazpravda.kz/"),
        Site("Экспресс К", "https://exk.kz/"),
    ),
    "ky": (
        Site("Кыргыз Республикасынын Өкмөтү", "https://www.gov.kg/ky"),
        Site("24.kg", "https://24.kg/kyrgyzcha/"),
        Site("Кабар", "https://kabar.kg/"),
    ),
    "ne": (
        Site("नेपाल सरकार", "https://nepal.gov.np/"),
        Site("ईकान्तिपुर", "https://ekantipur.com/"),
    ),
    "tl": (
        Site("Pamahalaan ng Pilipinas", "https://www.gov.ph/"),
        Site("Pilipino Express (菲律宾快报)", "", "unsure"),
    ),
    "ps": (
        Site("Associated Press of Pakistan, Pashto", "https://www.app.com.pk/ps/"),
        Site("Ministry of Communications, Afghanistan", "https://mcit.gov.af/ps"),
    ),
    "lo": (
        Site("ປະຊາຊົນ", "https://www.pasaxon.org.la/"),
        Site("ຂ່າວສານປະເທດລາວ", "https://kpl.gov.la/"),
        Site("ວິທະຍຸກະຈາຍສຽງແຫ່ງຊາດລາວ", "https://www.lnr.org.la/"),
    ),
    "tg": (
        Site("Азия-Плюс", "https://asiaplustj.info/tj"),
        Site("Ховар", "https://khovar.tj/"),
        Site("Маҷлиси Олӣ", "https://parlament.tj/"),
    ),
    "bo": (
        Site("中国共产党新闻网藏文版", "http://tibet.cpc.people.com.cn/"),
        Site("青海藏语广播网", "http://www.qhtb.cn/"),
        Site("中国西藏网藏文版", "http://tb.tibet.cn/"),
        Site("藏族历史网", "", "unsure"),
    ),
}
"""By language."""
