"""Publication dates of pages.

Forms of dates that occur in meta elements, JSON-LD, `time` and feeds.

Only whole dates from 1990 to 2100 are accepted. A date without a zone is taken as UTC.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone

from lycosa.core.patterns import lazy_pattern
from lycosa.url.languages import language_code

FIRST_YEAR, LAST_YEAR = 1990, 2100
_BUDDHIST_ERA = 543  # years that Thai pages count more

_NAMED_OFFSET = r"(?:UTC|GMT)[+-]\d{1,2}(?::?\d\d)?(?!\d)"
_ZONE_NAME = rf"(?:{_NAMED_OFFSET}|[A-Z]{{1,4}}\b)"
WORD = r"[^\W\d_][^\s\d.,;:()/|-]{1,20}"
MONTH = rf"(?:(?:كانون|تشرين)\s+\w{{5,6}}|{WORD})(?:\s?[/(]\s?[^\W\d_][^\d()/]{{1,20}}\)?)?"
"""The name of a month, perhaps with a second one: `نوفمبر (تشرين الثاني)`."""
YEAR_BEFORE = r"(?:[.,၊]|\s?-?(?:жылғы|ж\.,?)|\s+ခုနှစ်၊?)?\s+"
"""What follows a year that precedes day and month."""
_WEEKDAY = rf"\s*(?:{WORD}(?:\.?,\s*|\.?\s+))?"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?"
_FORMS = (
    lazy_pattern(
        r"\s*(?P<year>\d{4})-?(?P<month>\d\d)-?(?P<day>\d\d)(?:[Tt\s]\s*(?P<hour>\d\d):?"
        r"(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,]\d+)?)?\s*"
        rf"(?P<zone>[+-]\d\d(?::?\d\d)?|{_ZONE_NAME})?)?(?!\d)"
    ),
    lazy_pattern(
        r"\s*(?P<year>\d{4})(?:\s?[-/.年년]\s?|\s+оны\s+)(?P<month>\d{1,2})"
        r"(?:\s?[-/.月월]\s?|(?:-р)?\s+сарын\s+)"
        rf"(?P<day>\d{{1,2}})(?!\d)[日일.]?(?:\s+{_TIME}(?!\d)"
        rf"(?:\s*(?P<zone>{_ZONE_NAME}))?)?"
    ),
    lazy_pattern(
        rf"\s*(?P<year>\d{{4}}){YEAR_BEFORE}(?P<day>\d{{1,2}})[\s-](?P<name>{MONTH})(?!\d)"
    ),
    lazy_pattern(
        rf"\s*(?P<year>\d{{4}}){YEAR_BEFORE}(?P<name>{WORD})\.?\s+(?P<day>\d{{1,2}})(?!\d)"
    ),
    lazy_pattern(
        r"\s*(?:ngày\s+)?(?P<day>\d{1,2})(?:\.\s?|\s+tháng\s+)(?P<month>\d{1,2})"
        r"(?:\.\s?|,?\s+(?:năm\s+)?)(?P<year>\d{4})(?!\d)"
        rf"(?:,?\s+{_TIME}(?!\d)(?:\s*(?P<zone>(?-i:{_ZONE_NAME})))?)?",
        re.IGNORECASE,
    ),
    lazy_pattern(
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|º)?\.?[\s-]\s?(?:de\s+)?"
        rf"(?P<name>{MONTH})\.?,?[\s-]"
        r"(?:del?\s+|соли\s+)?(?P<year>\d{4}|\d\d(?=[\s,]+\d{1,2}:))"
        rf"(?:[\s,]+{_TIME})?\s*(?P<zone>[+-]\d\d:?\d\d|{_ZONE_NAME})?(?!\d)"
    ),
    lazy_pattern(
        rf"{_WEEKDAY}(?P<name>{WORD})\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+"
        r"(?P<year>\d{4})(?!\d)(?:\s+(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
        rf"(?:\s+(?P<zone>[+-]\d{{4}}|{_ZONE_NAME})?)?)?"
    ),
    lazy_pattern(
        rf"{_WEEKDAY}(?P<name>[A-Za-z]{{3}})\s+(?P<day>\d{{1,2}})\s+(?P<hour>\d\d):"
        r"(?P<minute>\d\d):(?P<second>\d\d)\s+(?:(?P<zone>[A-Z]{3,4})\s+)?(?P<year>\d{4})(?!\d)"
    ),
)
"""The forms of dates, in the order in which they are tried; `name`: of a month."""
_MONTH_NAMES = """
    january jan januar janvier janv enero ene gennaio gen janeiro января январь янв يناير जनवरी जन
    ژانویهٔ ژانویه januari қаңтар қаң январ ມັງກອນ ဇန်နဝါရီ ဇန် جنوري جنوری stycznia styczeń sty
    ledna leden led ocak oca січня січень січ ianuarie ian ιανουαρίου ιανουάριοσ ιαν január
    tammikuuta tammikuu tammi януари яну كانون_الثاني جانفي январи ינואר בינואר มกราคม;
    february feb februar février févr febrero febbraio fevereiro fev февраля февраль февр فبراير
    फ़रवरी फ़र فوریهٔ فوریه februari pebrero peb ақпан ақп фев феврал ກຸມພາ ဖေဖော်ဝါရီ ဖေ फेब्रुअरी
    فبروري فېبروري فروری lutego luty lut února únor úno şubat şub лютого лютий лют februarie
    φεβρουαρίου φεβρουάριοσ φεβ február febr helmikuuta helmikuu helmi февруари شباط فيفري फरवरी
    феврали פברואר בפברואר กุมภาพันธ์;
    march mar märz mär mars marzo março марта март мар مارس मार्च maret mac marso наурыз нау ມີນາ
    မတ် مارچ maart mrt marts marca marzec března březen bře mart березня березень бер martie μαρτίου
    μάρτιοσ μαρ μάρ március márc maaliskuuta maaliskuu maalis آذار марти מרץ במרץ มีนาคม;
    april apr avril avr abril abr aprile апреля апрель апр أبريل अप्रैल آوریل сәуір сәу апрел ເມສາ
    ဧပြီ अप्रिल اپریل kwietnia kwiecień kwi dubna duben dub nisan nis квітня квітень квіт aprilie
    απριλίου απρίλιοσ απρ április ápr huhtikuuta huhtikuu huhti април نيسان أفريل إبريل апрели אפריל
    באפריל เมษายน;
    may mai mayo maggio mag maio мая май مايو मई مهٔ مه mei мамыр мам ພຶດສະພາ မေ मे مۍ مئی maj maja
    května květen kvě mayıs травня травень трав μαΐου μάιοσ μαΐ μάι május máj toukokuuta
    toukokuu touko أيار ماي می майи מאי במאי พฤษภาคม;
    june jun juni juin junio giugno giu junho июня июнь июн يونيو जून ژوئن hunyo hun маусым мау
    ມິຖຸນາ ဇွန် जुन جون czerwca czerwiec cze června červen čvn haziran haz червня червень черв iunie
    iun ιουνίου ιούνιοσ ιουν ιούν június jún kesäkuuta kesäkuu kesä юни حزيران جوان июни יוני ביוני
    มิถุนายน;
    july jul juli juillet juil julio luglio lug julho июля июль июл يوليو जुलाई जुल ژوئیهٔ ژوئیه
    julai hulyo hul шілде шіл ກໍລະກົດ ဇူလိုင် ဇူ جولای جولائی lipca lipiec lip července červenec čvc
    temmuz tem липня липень лип iulie iul ιουλίου ιούλιοσ ιουλ ιούλ július júl heinäkuuta heinäkuu
    heinä юли تموز جويلية يوليوز июли יולי ביולי กรกฎาคม;
    august aug août agosto ago августа август авг أغسطس अगस्त अग اوت agustus agu ogos ogo тамыз там
    ສິງຫາ ဩဂုတ် अगस्ट اګست اگست augustus augusti sierpnia sierpień sie srpna srpen srp ağustos ağu
    серпня серпень серп αυγούστου αύγουστοσ αυγ αύγ augusztus elokuuta elokuu elo آب أوت غشت августи
    אוגוסט באוגוסט สิงหาคม;
    september sep sept septembre septiembre settembre set setembro сентября сентябрь сент سبتمبر
    सितंबर सित سپتامبر setyembre қыркүйек қыр сен сентябр ກັນຍາ စက်တင်ဘာ စက် सेप्टेम्बर سېپتمبر
    سپتمبر ستمبر września wrzesień wrz září zář eylül eyl вересня вересень вер septembrie
    σεπτεμβρίου σεπτέμβριοσ σεπ szeptember szept syyskuuta syyskuu syys септември сеп أيلول شتنبر
    सितम्बर сентябри ספטמבר בספטמבר กันยายน;
    october oct oktober okt octobre octubre ottobre ott outubro out октября октябрь окт أكتوبر
    अक्टूबर अक्टू اکتبر oktubre қазан қаз октябр ຕຸລາ အောက်တိုဘာ အောက် अक्टोबर اکتوبر października
    październik paź října říjen říj ekim eki жовтня жовтень жовт octombrie οκτωβρίου οκτώβριοσ οκτ
    október lokakuuta lokakuu loka октомври تشرين_الأول अक्तूबर октябри אוקטובר באוקטובר ตุลาคม;
    november nov novembre noviembre novembro ноября ноябрь нояб نوفمبر नवंबर नव نوامبر nobyembre nob
    қараша қар ноя ноябр ພະຈິກ နိုဝင်ဘာ နို नोभेम्बर نومبر listopada listopad lis listopadu kasım
    kas листопада листопад лист noiembrie νοεμβρίου νοέμβριοσ νοε νοέ marraskuuta marraskuu marras
    ноември ное تشرين_الثاني نونبر नवम्बर ноябри נובמבר בנובמבר พฤศจิกายน;
    december dec dezember dez décembre déc diciembre dic dicembre dezembro декабря декабрь дек
    ديسمبر दिसंबर दिस دسامبر desember des disember dis disyembre желтоқсан жел декабр ທັນວາ ဒီဇင်ဘာ
    ဒီ डिसेम्बर دسمبر grudnia grudzień gru prosince prosinec pro aralık ara грудня грудень груд
    decembrie δεκεμβρίου δεκέμβριοσ δεκ joulukuuta joulukuu joulu декември كانون_الأول دجنبر दिसम्बर
    декабри דצמבר בדצמבר ธันวาคม
"""
"""By month, in the languages whose text is analyzed and 14 more: names and abbreviations of Unicode
CLDR, and others of Arabic, Hindi, Persian and Tajik news. `_` is a space.
"""
_ZONE_HOURS = {
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "BST": 1, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "IDT": 3, "MSK": 3,
    "WAT": 1, "CAT": 2, "SAST": 2, "EAT": 3, "PKT": 5, "WIB": 7, "HKT": 8, "MYT": 8, "PHT": 8,
    "SGT": 8, "WITA": 8, "JST": 9, "KST": 9, "WIT": 9, "AWST": 8, "ACST": 9.5, "ACDT": 10.5,
    "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
}  # fmt: skip
"""RFC 822, section 5.1, then names with one meaning in the IANA time zone database, and those of
Malaysia, the Philippines and Singapore. RFC 822's military zones count as UTC, since they were used
with either sign (RFC 5322, section 4.3).
"""
_ZONE_HOURS_IN: dict[str, dict[str, float]] = {
    "zh": {"CST": 8}, "he": {"IST": 2}, "hi": {"IST": 5.5}, "en-in": {"IST": 5.5},
}  # fmt: skip
"""Names with several meanings, by the language of the page."""
_MONTHS = {
    name.replace("_", " "): number
    for number, names in enumerate(_MONTH_NAMES.split(";"), 1)
    for name in names.split()
}


def parse_date(text: str, language: str = "") -> int | None:
    """Return the milliseconds since 1970 UTC of a date as pages write it, else None.

    Formats: ISO 8601, RFC 3339, RFC 9110 HTTP-date, `Date` of JavaScript and relatives. `3.4.2024`
    is in April. `language`: the tag of the page, for names of time zones.
    """
    text = unicodedata.normalize("NFC", text[:80])
    for form in _FORMS:
        if match := form.match(text):
            return _milliseconds(match.groupdict(), language)
    return None


def _milliseconds(parts: Mapping[str, str], language: str) -> int | None:
    """Return the time that the groups of a form describe. Raises nothing."""
    year, hour, zone = int(parts["year"]), int(parts.get("hour") or 0), parts.get("zone")
    if len(parts["year"]) == 2:  # RFC 5322, section 4.3
        year += 2_000 if year < 50 else 1_900
    elif year > LAST_YEAR:
        year -= _BUDDHIST_ERA
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    if (hour == 12 and zone == "AM") or (hour < 12 and zone == "PM"):
        hour = (hour + 12) % 24
    try:
        moment = datetime(
            year,
            int(parts["month"]) if "month" in parts else _month(parts["name"]),
            int(parts["day"]),
            hour,
            int(parts.get("minute") or 0),
            min(int(parts.get("second") or 0), 59),
            tzinfo=_zone(zone, language) if parts.get("hour") else UTC,
        )
        return int(moment.timestamp()) * 1000
    except (KeyError, ValueError, OverflowError):
        return None


def _month(name: str) -> int:
    """Return the number of a month by the first of its names. Raises KeyError."""
    first = re.split(r"\s?[/(]", name.casefold(), maxsplit=1)[0]
    return _MONTHS[" ".join(first.split())]


def _zone(text: str | None, language: str) -> timezone:
    """Return the time zone. Raises ValueError for an offset of a day or more."""
    if not text:
        return UTC
    sign = text.find("-") if "-" in text else text.find("+")
    if sign >= 0:
        digits = text[sign + 1 :].replace(":", "")
        hours, minutes = (digits, "") if len(digits) <= 2 else (digits[:-2], digits[-2:])
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if text[sign] == "-" else offset)
    tag = language.lower().replace("_", "-")
    local = _ZONE_HOURS_IN.get(tag) or _ZONE_HOURS_IN.get(language_code(tag), {})
    return timezone(timedelta(hours=local.get(text, _ZONE_HOURS.get(text, 0))))
