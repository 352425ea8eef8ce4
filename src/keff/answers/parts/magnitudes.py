"""Words of magnitude and signs of currency in the languages and scripts that models answer in."""

from __future__ import annotations

import re
import sys
import unicodedata

# English first: its words count in mathematics too. Billion is 10^9, as in English and Portuguese of Brazil;
# languages of the long scale write it otherwise (billones, Billionen).
ENGLISH: dict[str, int] = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "quadrillion": 10**15,
    "lakh": 10**5,
    "crore": 10**7,
}
# Every form that stands behind a number, by language.
_WORDS = {
    12: "dutzend douzaine douzaines docena docenas dúzia dúzias dozzina dozzine",
    10**2: ("hundert cento cien cientos cem trăm ratus yüz سو सौ শত مئة مائة مية сотен сотни sto"),
    10**3: (
        "tausend mille mil mila duizend tusen tysiąc tysiące tysięcy tys тысяча "
        "тысячи тысяч тысячу тыс тисяча тисячі тисяч тис bin nghìn ngàn ribu हज़ार "
        "हजार হাজার হাজর ہزار هزار ألف الف آلاف ألفا mii tisíc tisíce ezer χιλιάδες "
        "χίλια אלף אלפים elfu libo ஆயிரம் వేల ହଜାର ਹਜ਼ਾਰ હજાર ሺህ"
    ),
    10**5: "लाख লাখ লক্ষ لاکھ லட்சம் లక్ష లక్షల ਲੱਖ લાખ lakhs lac",
    10**6: (
        "millionen mio million millions millón millon millones milhão milhões milhao "
        "milhoes milione milioni miljoen miljon miljoner milion miliony milionów mln "
        "миллион миллиона миллионов млн мільйон мільйони мільйонів milyon triệu juta "
        "मिलियन মিলিয়ন ملین میلیون مليون ملايين milioane milionů millió εκατομμύρια "
        "εκατομμύριο מיליון milioni milyong"
    ),
    10**7: "करोड़ कोटी কোটি کروڑ கோடி కోటి కోట్ల ਕਰੋੜ કરોડ crores",
    10**9: (
        "milliarde milliarden mrd milliard milliards millardo millardos bilhão "
        "bilhões miliardo miliarde miliardi miljard miljarder miliard miliardy "
        "miliardów mld миллиард миллиарда миллиардов млрд мільярд мільярди мільярдів "
        "milyar tỷ tỉ miliar अरब বিলিয়ন ارب میلیارد مليار بليون δισεκατομμύρια "
        "מיליארד bilioni"
    ),
    10**12: (
        "billionen billones billón biliões bilião biljoen biljoner biliony bilionów "
        "триллион триллиона триллионов трлн трильйон trilyon triliun trilhão trilhões "
        "تريليون خرب"
    ),
}
# Signs that stand right behind the digits, alone (3万) or together (3千万); more digits may follow.
# Before a unit they belong to it: 千克 is the kilogram.
_UNIT = "克米瓦卡赫帕伏焦字"
SIGNS: dict[str, int] = {
    "百": 10**2,
    "千": 10**3,
    "万": 10**4,
    "萬": 10**4,
    "亿": 10**8,
    "億": 10**8,
    "兆": 10**12,
    "백": 10**2,
    "천": 10**3,
    "만": 10**4,
    "억": 10**8,
    "조": 10**12,
}
# Thai writes no spaces between words.
_JOINED = {"ร้อย": 10**2, "พัน": 10**3, "หมื่น": 10**4, "แสน": 10**5, "ล้าน": 10**6}


def _forms(word: str) -> set[str]:
    """Return a word's spellings: letters with marks come composed and decomposed."""
    return {unicodedata.normalize(form, word) for form in ("NFC", "NFD")} | {word}


WORDS: dict[str, int] = {
    **{
        spelling: size
        for size, words in _WORDS.items()
        for word in words.split()
        for spelling in _forms(word)
    },
    **{spelling: size for word, size in _JOINED.items() for spelling in _forms(word)},
    **ENGLISH,
    **{f"{word}s": size for word, size in ENGLISH.items()},
}


def _any(words: dict[str, int], but: dict[str, int]) -> str:
    return "|".join(sorted(words.keys() - but.keys(), key=len, reverse=True))


_THAI = {spelling: size for word, size in _JOINED.items() for spelling in _forms(word)}
SIGN = rf"(?:[{''.join(SIGNS)}](?![{_UNIT}]))"
# A word of magnitude behind a number, or signs of it; ``MORE`` are the further parts of 3万5千.
SCALE = rf"(?:(?:[ -](?i:{_any(WORDS, _THAI)})(?!\w)\.?)+|(?:[ ]?(?:{'|'.join(_THAI)}))+|[ ]?{SIGN}+)"
# One word or sign of several that are written together.
PIECE = rf"[{''.join(SIGNS)}]|{'|'.join(_THAI)}|[^\s.-]+"
MORE = rf"(?:\d[\d,.]*{SIGN}+)*(?:(?<=[{''.join(SIGNS)}])\d+)?"

# A word between a number and a magnitude is most often a number itself (5 दस हजार): what is meant is unknown.
_LONG_WORDS = {word: size for word, size in WORDS.items() if len(word) > 3 or not word.isascii()}
UNKNOWN_SCALE = rf"[ ][^\W\d_]\S{{0,15}}[ ](?:{_any(_LONG_WORDS, ENGLISH)})(?!\w)"

# Function words that tell languages apart in which one word of magnitude means two numbers.
_ENGLISH_TEXT = re.compile(r"\b(?:the|is|are|of|and|answer|we|so|which|total|about)\b", re.IGNORECASE)
_LONG_SCALE_TEXT = re.compile(
    r"\b(?:ist|sind|der|das|und|antwort|ergebnis|beträgt|est|les|des|et|une|réponse|donc|er|og|svaret)\b",
    re.IGNORECASE,
)
# In English a mil is a thousandth of an inch or short for a million, and a bin is a box.
_NOT_IN_ENGLISH = re.compile(r"\b(?:mil|bin|mio|mille|cento|sto)\b", re.IGNORECASE)
# A billion is 10^12 in German, French and Danish.
_SHORT_SCALE = re.compile(r"\b(?:b|tr|quadr)illions?\b", re.IGNORECASE)


def ambiguous(scale: str, text: str) -> bool:
    """Return whether words of magnitude mean another number in the language of the text around them."""
    english = _NOT_IN_ENGLISH.search(scale) and _ENGLISH_TEXT.search(text)
    long = _SHORT_SCALE.search(scale) and _LONG_SCALE_TEXT.search(text) and not _ENGLISH_TEXT.search(text)
    return bool(english or long)


# Names of currencies that are written in front of an amount, often without a space.
_NAMES = (
    "US$ A$ C$ R$ S$ HK$ NT$ NZ$ CA$ AU$ MX$ RM RMB Rp Rs Rs. CHF Fr. kr Kč zł Ksh KSh TSh GH₵ "
    "USD EUR GBP INR CNY JPY KRW CAD AUD NZD SEK NOK DKK PLN CZK HUF RUB TRY BRL ZAR SGD HKD "
    "MYR IDR THB VND PHP MXN ILS SAR AED EGP NGN KES PKR BDT LKR TWD UAH COP CLP ARS PEN"
)
_SIGNS = "".join(chr(code) for code in range(sys.maxunicode) if unicodedata.category(chr(code)) == "Sc")
_LONGEST_FIRST = sorted(_NAMES.split(), key=len, reverse=True)
CURRENCY = f"(?:{'|'.join(map(re.escape, _LONGEST_FIRST))}|[{_SIGNS}])"
