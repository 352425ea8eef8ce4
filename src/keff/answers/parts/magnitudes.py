"""Words and signs around numbers in the languages and scripts that models answer in.

Words of magnitude are those of Unicode's CLDR (compact decimal formats), with the forms that it leaves out.
"""

from __future__ import annotations

import re
import unicodedata

from keff.answers.parts.number_words import UNSPACED, either, forms, listed

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
    12: """
        dutzend douzaine douzaines docena docenas dúzia dúzias dozzina dozzine дюжина дюжины дюжин
    """,
    10**3: """
        tausend tsd rb mille mil mila milliers millier duizend tusen tusind duisend tysiąc tysiące tysięcy
        tysiąca tys тысяча тысячи тысяч тысячу тыс тисяча тисячі тисяч тис тысячы bin nghìn ngàn ribu èwu
        हज़ार हजार হাজার হাজর হাজাৰ ہزار ھزار هزار زره hezar ألف الف آلاف ألفا mii tisíc tisíce tisíca tis
        ezer χιλιάδες χιλιάδα χίλια χιλ אלף אלפים elfu libo ஆயிரம் వేల వేలు వేయి ಸಾವಿರ ആയിരം ହଜାର ਹਜ਼ਾਰ
        હજાર ሺህ ሺ tuhat tuhatta milers tisuća tisuće hiljada hiljade хиљада хиљаде хиляди хил илјада
        илјади tisoč tūkst tūkstantis tūkstančiai tūkstančio tūkstančių tūkstotis tūkstoši tūkstošu þúsund
        mijë míle mhíle мың миң минг мянга ming müň հազար ათასი ထောင် ẹgbẹ̀rún inkulungwane
    """,
    10**5: """
        lac लाख লাখ লক্ষ لاکھ லட்சம் లక్ష లక్షల ಲಕ್ಷ ലക്ഷം ਲੱਖ લાખ ଲକ୍ଷ သိန်း
    """,
    10**6: """
        millionen mio jt millón millon millones milhão milhões milhao milhoes milione milioni miljoen
        miljon miljoner milion miliony miliona milionów mln миллион миллиона миллионов млн мільйон
        мільйона мільйони мільйонів мільён мільёны мільёнаў milyon triệu juta yuta मिलियन মিলিয়ন নিযুত
        ملین میلیون مليون ملايين ملين milioane milionů milionu millió εκατομμύρια εκατομμύριο מיליון
        milyong mill millioner millionar miljoona miljoonaa miljonit milj miljons miljoni miljonu
        milijonas milijonai milijono milijonų milijon milijona milijoni milijonov milijun milijuna milió
        milions millóns milioi milión milióny miliónov milióna milljón milljónir милион милиона милиони
        сая միլիոն մլն მილიონი მლნ ሚሊዮን மில்லியன் మిలియన్ మిలియన్లు ಮಿಲಿಯನ್ ദശലക്ഷം ନିୟୁତ သန်း milliún
        mhilliún miliwn
    """,
    10**7: """
        करोड़ करोड कोटी কোটি کروڑ கோடி కోటి కోట్ల ಕೋಟಿ കോടി ਕਰੋੜ કરોડ କୋଟି
    """,
    10**9: """
        milliarde milliarden mrd md mds milliard milliards millardo millardos bilhão bilhões miliardo
        miliarde miliardi miljard miljarder miliard miliardy miliardów miliarda mld mlrd миллиард
        миллиарда миллиардов млрд мільярд мільярда мільярди мільярдів мільярды мільярдаў milyar milyard tỷ
        tỉ miliar अरब अब्ज बिलियन বিলিয়ন ارب میلیارد مليار بليون بلين δισεκατομμύρια δισεκατομμύριο δισ
        מיליארד mia milliarder milliardar miljardi miljardia miljardit miljards miljardu milijardas
        milijardai milijardo milijardų milijarda milijarde milijard milijardi milliárd miliárd milljarður
        milljarðar милиард милиарда милијарда милијарде милијарди млд միլիարդ մլրդ მილიარდი მლრდ ቢሊዮን ਅਰਬ
        અબજ பில்லியன் బిలియన్ బిలియన్లు ಬಿಲಿಯನ್ ബില്യൺ billiún biliwn
    """,
    10**11: """
        खरब ਖਰਬ کھرب خرب
    """,
    10**12: """
        billionen billones billón biliões bilião biljoen biljoner biliony bilionów bilionů bilióny
        biliónov триллион триллиона триллионов трлн трильйон трильйона трильйонів трыльён trilyon triliun
        trilhão trilhões تريليون تریلیون ٹریلین ترليون ट्रिलियन billioner biljoona biljoonaa bilijun
        bilijon billió trilijonas trilijonai triljons triljoni trilioane трилион трилиона трилиони
        τρισεκατομμύρια τρισεκατομμύριο տրիլիոն ტრილიონი טריליון டிரில்லியன் ట్రిలియన్ ಟ್ರಿಲಿಯನ್ ട്രില്യൺ
    """,
    # Another number in each of several languages: such a number is not read.
    0: """
        bilion biliona bilioni bilyon trilion triliona trillón trillones trillionen trilione trilioni
    """,
}
# Signs that stand right behind the digits, alone (3万) or together (3千万); more digits may follow.
# Before a unit they belong to it: 千克 is the kilogram.
_UNIT = "克米瓦卡赫帕伏焦字"
SIGNS: dict[str, int] = {
    "十": 10,
    "拾": 10,
    "百": 10**2,
    "佰": 10**2,
    "千": 10**3,
    "仟": 10**3,
    "万": 10**4,
    "萬": 10**4,
    "亿": 10**8,
    "億": 10**8,
    "兆": 10**12,
    "京": 10**16,
    "십": 10,
    "백": 10**2,
    "천": 10**3,
    "만": 10**4,
    "억": 10**8,
    "조": 10**12,
}
# Thai, Lao and Khmer write no spaces between words.
_JOINED = {
    "สิบ": 10, "ร้อย": 10**2, "พัน": 10**3, "หมื่น": 10**4, "แสน": 10**5, "ล้าน": 10**6,
    "ຮ້ອຍ": 10**2, "ພັນ": 10**3, "ໝື່ນ": 10**4, "ແສນ": 10**5, "ລ້ານ": 10**6, "ຕື້": 10**9,
    "រយ": 10**2, "ពាន់": 10**3, "ម៉ឺន": 10**4, "សែន": 10**5, "លាន": 10**6,
}  # fmt: skip


WORDS: dict[str, int] = {
    **{
        spelling: size for size, words in _WORDS.items() for word in words.split() for spelling in forms(word)
    },
    **{spelling: size for word, size in _JOINED.items() for spelling in forms(word)},
    **ENGLISH,
    **{f"{word}s": size for word, size in ENGLISH.items()},
}


_SPACELESS = {spelling: size for word, size in _JOINED.items() for spelling in forms(word)}
_SPACED = WORDS.keys() - _SPACELESS.keys()
_END = rf"(?![^\W{UNSPACED}])"
SIGN = rf"(?:[{''.join(SIGNS)}](?![{_UNIT}]))"
# A word of magnitude behind a number, or signs of it; ``MORE`` are further parts: 3万5千.
SCALE = (
    rf"(?:(?:[ -]?(?:de[ ])?(?i:{either(_SPACED)}){_END}\.?)+"
    rf"|(?:[ ]?(?:{'|'.join(_SPACELESS)}))+|[ ]?{SIGN}+)"
)
# One word or sign of several that are written together.
PIECE = rf"[{''.join(SIGNS)}]|{'|'.join(_SPACELESS)}|[^\s.-]+"
MORE = rf"(?:[ ]?(?:و[ ]?)?\d[\d,.]*{SCALE})*(?:(?<=[{''.join(SIGNS)}])\d+)?"

# A word between a number and a magnitude is most often a number itself (5 दस हजार): what is meant is
# unknown. So is a magnitude that goes on: 5 thousandths, 3 milyondur.
_LONG_WORDS = {word for word in _SPACED if len(word) > 3 or not word.isascii()}
UNKNOWN_SCALE = (
    rf"[ ][^\W\d_]\S{{0,15}}[ ](?:{either(_LONG_WORDS - ENGLISH.keys())})(?!\w)"
    rf"|[ -]?(?i:{either(word for word in _LONG_WORDS if len(word) > 4)})[^\W\d_{UNSPACED}]"
)

# What stands before a number and makes it another one: a magnitude (elfu 5), a half more (साढ़े 5).
ALTERED = rf"(?:{either(_LONG_WORDS)}|{listed('dubu, දහස, මිලියන, साढ़े, सवा, पौने')})[ ]"
# Function words that tell languages apart in which one word of magnitude means two numbers.
_ENGLISH_TEXT = re.compile(r"\b(?:the|is|are|of|and|answer|we|so|which|total|about)\b", re.IGNORECASE)
_LONG_SCALE_TEXT = re.compile(
    r"\b(?:ist|sind|der|das|und|antwort|ergebnis|beträgt|est|les|des|et|une|réponse|donc|er|og|svaret)\b",
    re.IGNORECASE,
)
# In English a mil is a thousandth of an inch or short for a million, and a bin is a box.
_NOT_IN_ENGLISH = re.compile(r"\b(?:mil|mill|mia|bin|mio|mille|cento|sto|tis)\b", re.IGNORECASE)
# In Spanish and Portuguese mil is a thousand, in Czech, Slovak, Croatian and Romanian short for a million.
_MIL = re.compile(r"\bmil\b", re.IGNORECASE)
_MIL_IS_MILLION = re.compile(r"[ěřůčšžđľțșăţş]|\b(?:lei|je|su)\b", re.IGNORECASE)
# A billion is 10^12 in German, French and Danish.
_SHORT_SCALE = re.compile(r"\b(?:b|tr|quadr)illions?\b", re.IGNORECASE)


def ambiguous(scale: str, text: str) -> bool:
    """Return whether words of magnitude mean another number in the language of the text around them."""
    if _MIL.search(scale) and _MIL_IS_MILLION.search(text):
        return True
    english = _NOT_IN_ENGLISH.search(scale) and _ENGLISH_TEXT.search(text)
    long = _SHORT_SCALE.search(scale) and _LONG_SCALE_TEXT.search(text) and not _ENGLISH_TEXT.search(text)
    return bool(english or long)


# Names of currencies that are written in front of an amount, often without a space.
_NAMES = (
    "US$ A$ C$ R$ S$ HK$ NT$ NZ$ CA$ AU$ MX$ RM RMB Rp Rs Rs. CHF Fr. kr Kč zł Ksh KSh TSh GH₵ "
    "USD EUR GBP INR CNY JPY KRW CAD AUD NZD SEK NOK DKK PLN CZK HUF RUB TRY BRL ZAR SGD HKD "
    "MYR IDR THB VND PHP MXN ILS SAR AED EGP NGN KES PKR BDT LKR TWD UAH COP CLP ARS PEN"
)
# In the planes of scripts and symbols: those beyond hold ideographs, and there are a million places to look.
_SIGNS = "".join(sign for sign in map(chr, range(0x20000)) if unicodedata.category(sign) == "Sc")
_LONGEST_FIRST = sorted(_NAMES.split(), key=len, reverse=True)
CURRENCY = f"(?:{'|'.join(map(re.escape, _LONGEST_FIRST))}|[{_SIGNS}])"
