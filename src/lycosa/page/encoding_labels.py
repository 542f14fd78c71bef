"""The names of encodings: the encoding of each label, and the Python codec of each encoding.

Sources: WHATWG Encoding Standard, section 4.2 (names and labels); for encodings of old pages that
browsers no longer support (`FURTHER`), the IANA registry of character sets and Python's table of
standard encodings. Mostly data.
"""

from __future__ import annotations

UTF_8 = "utf-8"
REPLACEMENT = "replacement"
USER_DEFINED = "x-user-defined"

_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866 ibm866",
    "iso-8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 "
    "iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 "
    "iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 "
    "iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 "
    "iso_8859-5 iso_8859-5:1988",
    "iso-8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 "
    "iso-8859-6-e iso-8859-6-i iso-ir-127 "
    "iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso-8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 "
    "iso88597 iso_8859-7 iso_8859-7:1987 "
    "sun_eu_greek",
    "iso-8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 "
    "iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 "
    "visual",
    "iso-8859-8-i": "csiso88598i iso-8859-8-i logical",
    "iso-8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso-8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "windows-1250": "cp1250 windows-1250 x-cp1250",
    "windows-1251": "cp1251 windows-1251 x-cp1251",
    "windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 "
    "iso8859-1 iso88591 iso_8859-1 "
    "iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    "windows-1253": "cp1253 windows-1253 x-cp1253",
    "windows-1254": "cp1254 csisolatin5 iso-8859-9 "
    "iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254",
    "windows-1255": "cp1255 windows-1255 x-cp1255",
    "windows-1256": "cp1256 windows-1256 x-cp1256",
    "windows-1257": "cp1257 windows-1257 x-cp1257",
    "windows-1258": "cp1258 windows-1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "gb18030": "gb18030",
    "big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso-2022-jp": "csiso2022jp iso-2022-jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "euc-kr": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 "
    "ksc5601 ksc_5601 windows-949",
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement",
    "utf-16be": "unicodefffe utf-16be",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "x-user-defined": "x-user-defined",
}

ENCODING_OF_LABEL = {label: name for name, labels in _LABELS.items() for label in labels.split()}

_CODECS = {
    "iso-8859-8-i": "iso8859_8",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
    "gbk": "gb18030",  # the standard decodes both alike
    "big5": "big5hkscs",
    "iso-2022-jp": "iso2022_jp_ext",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
}

FURTHER = {
    "ibm437": "cp437",
    "ibm720": "cp720",
    "ibm850": "cp850",
    "ibm852": "cp852",
    "ibm855": "cp855",
    "ibm860": "cp860",
    "ibm863": "cp863",
    "x-mac-arabic": "mac_arabic",
    "x-mac-farsi": "mac_farsi",
    "koi8-t": "koi8_t",
    "kz-1048": "kz1048",
    "ptcp154": "ptcp154",
    "johab": "johab",
    "euc-jis-2004": "euc_jis_2004",
    "shift_jis-2004": "shift_jis_2004",
    "iso-2022-jp-2": "iso2022_jp_2",
    "iso-2022-jp-3": "iso2022_jp_3",
    "iso-2022-jp-2004": "iso2022_jp_2004",
    "iso-2022-kr": "iso2022_kr",
    "hz-gb-2312": "hz",
    "utf-32le": "utf-32-le",
    "utf-32be": "utf-32-be",
}
"""Encodings beyond the standard's: name -> Python codec. One of their labels is used if the bytes
are valid in that encoding.
"""

# Labels beyond the standard's that pages declare, without their hyphens and underscores.
_ALIASES = {
    "utf8mb4": UTF_8,
    "cp65001": UTF_8,
    "cp874": "windows-874",
    **{f"win{page}": f"windows-{page}" for page in range(1250, 1259)},
    "cp932": "shift_jis",
    **dict.fromkeys(("cp936", "ms936", "windows936", "euccn"), "gbk"),
    **dict.fromkeys(("cp949", "ms949", "uhc"), "euc-kr"),
    **dict.fromkeys(("cp950", "ms950", "windows950"), "big5"),
}

_FURTHER_LABELS = {
    **{name: name for name in FURTHER},
    **{name.replace("ibm", "cp"): name for name in FURTHER if name.startswith("ibm")},
    "cp154": "ptcp154",
    "cyrillic-asian": "ptcp154",
    "ms1361": "johab",
    "windows-1361": "johab",
    "rk1048": "kz-1048",
    "strk1048-2002": "kz-1048",
    "eucjis2004": "euc-jis-2004",
    "shift_jisx0213": "shift_jis-2004",
    "euc-jisx0213": "euc-jis-2004",
}

MULTI_BYTE = frozenset({"gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr"})


def encoding_of(label: str) -> str:
    """Return the encoding's name in lower case, "" for an unknown label ("get an encoding",
    Encoding Standard section 4.2). Other labels that pages declare are known too, such as `UTF_8`
    and `cp949`.
    """
    label = _lower(label)
    return ENCODING_OF_LABEL.get(label) or _ENCODING_OF_SPELLING.get(_joined(label), "")


def codec_of(encoding: str) -> str:
    """Return the Python codec of an encoding's name (not for `replacement` and `x-user-defined`,
    which have none).
    """
    return _CODECS.get(encoding) or FURTHER.get(encoding, encoding)


def further_of(label: str) -> str:
    """Return the encoding of `FURTHER` that a label names, "" if none."""
    return _FURTHER_OF_SPELLING.get(_joined(_lower(label)), "")


def _lower(label: str) -> str:
    return label.strip(" \t\n\f\r\"'").lower()


def _joined(label: str) -> str:
    """Leave out the hyphens and underscores of a label: no two encodings differ only in them."""
    return label.replace("-", "").replace("_", "")


_ENCODING_OF_SPELLING = _ALIASES | {_joined(lab): name for lab, name in ENCODING_OF_LABEL.items()}
_FURTHER_OF_SPELLING = {_joined(label): name for label, name in _FURTHER_LABELS.items()}
