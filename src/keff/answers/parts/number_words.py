"""Words around numbers and labels in the languages that models answer in: minus, bounds, halves, "and", "or".

A number behind or before them is another one, or one of several; it is read whole or not at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

# Scripts without spaces: a word of another script ends where they begin (3 million美元).
UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af"


def forms(word: str) -> set[str]:
    """Return a word's spellings: letters with marks come composed and decomposed."""
    return {unicodedata.normalize(form, word) for form in ("NFC", "NFD")} | {word}


def either(words: Iterable[str]) -> str:
    """Return a pattern of any of the words, longest first, grouped by their first letter."""
    groups: dict[str, list[str]] = {}
    for word in sorted(words, key=len, reverse=True):
        groups.setdefault(word[0], []).append(re.escape(word[1:]).replace(r"\ ", " "))
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


def listed(words: str) -> str:
    """Return a pattern of any of the words between commas, composed or decomposed."""
    return either(spelling for word in words.split(",") for spelling in forms(word.strip()))


# Words for minus.
MINUS = (
    r"(?:(?:"
    + listed("""
        minus, negative, moins, menos, meno, минус, мінус, eksi, miinus, mínusz, mínus, mīnus, menys,
        mənfi, μείον, πλην, негатив, âm, negativ, negativo, negatif, ऋण, ऋणात्मक, ঋণ, ঋণাত্মক, माइनस,
        منفی, سالب, ناقص, מינוס, 마이너스, 영하
    """)
    + r")[ ]|负|負|マイナス|零下|ติดลบ|ลบ|마이너스|영하)"
)
# What joins the numbers or labels of a statement that names several, in the languages that models answer in.
JOIN = (
    r"(?:[;&]|\b(?:and|or|und|oder|et|ou|y|e|o|u|en|och|eller|og|ja|tai|ve|veya|ya da|atau|dan|na|au|и|или|і"
    r"|або|та|i|lub|albo|oraz|a|nebo|și|si|sau|és|vagy|ir|arba|un|vai|và|hoặc|και|ή|at|hay)\b"
    r"|和|与|與|及|或|と|や|か|または|もしくは|ないし|또는|와|과|및|และ|หรือ|और|या|आणि|किंवा|এবং|অথবা|বা|மற்றும்|அல்லது"
    r"|మరియు|లేదా|و|أو|یا|ו-|או|،|、)"
)
# Words before a number that say it is a bound.
BOUND = (
    r"(?:(?<!\w)(?:"
    + listed("""
        less than, more than, greater than, fewer than, at least, at most, over, under, above, below,
        up to, no more than, no less than, less, more, greater, fewer, than or equal to, mehr als,
        weniger als, mindestens, höchstens, plus de, moins de, au moins, au plus, más de, menos de,
        al menos, por lo menos, como mínimo, como máximo, a lo sumo, mais de, pelo menos, no mínimo,
        no máximo, più di, meno di, almeno, al massimo, meer dan, minder dan, minstens, ten minste,
        hoogstens, более, менее, больше, меньше, минимум, максимум, свыше, понад, більше, менше,
        więcej niż, mniej niż, ponad, co najmniej, co najwyżej, en az, en fazla, hơn, ít nhất, nhiều nhất,
        tối đa, tối thiểu, lebih dari, kurang dari, setidaknya, paling banyak, أكثر من, أقل من, على الأقل,
        بیش از, کمتر از, حداقل, حداکثر, 적어도, 최소, 최대
    """)
    + r")[ ]|[大小多少高低][于於]|不?超[过過]|不到|不足|至少|最多|少なくとも)"
)
# Behind it.
BOUNDED = (
    rf"[ ]?[^\W\d_]?[{UNSPACED}]{{0,2}}(?:以上|以下|以内|以內|未満|未满|[余餘多](?![{UNSPACED}]))"
    r"|[ ]?[가-힣]{0,2}[ ]?(?:이상|이하|미만|초과)"
    rf"|[ ](?:{listed('से अधिक, से कम, से ज़्यादा, से ज्यादा')})"
    r"|[ ](?:oder|und|ou|o|of|eller|или|и|або|lub|i|atau|ve|veya|or|and)[ ](?:"
    + listed("""
        more, fewer, less, greater, above, below, over, under, up, mehr, weniger, plus, moins, más, menos,
        mais, più, meno, meer, minder, mer, flere, более, больше, менее, меньше, більше, менше, więcej,
        mniej, lebih, fazla, daha fazla
    """)
    + r")\b"
)
# What adds a half or another part to a number, or makes it a fraction.
HALF = (
    r"[ ](?:"
    + listed("""
        and a half, and one half, and half, & a half, a half, and a third, and two thirds,
        and a quarter, and three quarters, und ein halb, und eine halbe, und ein halber, einhalb,
        et demi, et demie, et quart, y medio, y media, y cuarto, e meio, e meia, e mezzo, e mezza,
        с половиной, з половиною, i pół, a půl, buçuk, rưỡi, setengah, ونصف, و نصف, ونیم, و نیم,
        וחצי, och en halv, en een half, en een halve, og en halv, og et halvt, και μισό, και μισή,
        és fél, ja puoli, și jumătate, si jumatate, и половина, halves, thirds, fourths, fifths,
        sixths, sevenths, eighths, ninths, tenths
    """)
    + rf")(?!\w)|[{UNSPACED}]{{0,3}}半(?![径徑岛島球])|[ ]?[가-힣]{{0,3}}[ ]?반(?!\w)|[ ]?ครึ่ง"
)
# Verbs before what a number comes to, and words that begin a reason.
_IS = "is, are, be, equals, makes, gives, ist, sind, est, sont, es, son, é, são, это, jest"
_BECAUSE = """
    because, since, as, when, if, where, so, while, which, that, than, weil, da, denn, wenn, car,
    parce, puisque, si, porque, pues, pois, perché, потому, так, ponieważ, bo, omdat, want
"""
# What a number that begins a sentence comes to, if a last number follows: "3 hours at $5 are $15".
AMOUNTS_TO = re.compile(
    r"\s(?:"
    + listed(
        f"{_IS}, equal, make, give, ergibt, ergeben, macht, machen, font, fait, è, sono, будет, is gelijk aan"
    )
    + r")\s+[^\w\s]{0,3}(?=\d)",
    re.IGNORECASE,
)
# With one of these before it, it does not: "42, because 6 times 7 is 42".
CLAUSE = re.compile(
    r"[,;:(]|(?<!\w)(?:" + listed(f"{_BECAUSE}, who, wo, où, dove, где, если, gdzie, waar") + r")(?!\w)",
    re.IGNORECASE,
)
# Words behind which another number gives a reason, and is no part of the one before.
REASON = re.compile(
    r"(?<!\w)(?:"
    + listed(f"""
        {_IS}, {_BECAUSE}, for, in, of, on, at, after, before, with, from, was, were, has, have, because of,
        für, im, bei, von, mit, nach, pour, dans, avec, para, con, em, com, для, при, за, w, dla, met, çünkü,
        için, vì, trong, cho, karena, untuk, pada, di, क्योंकि, में, के, لأن, في, چون, در, fordi, för,
        eftersom, som, til
    """)
    + r")(?!\w)|因为|因為|由于|由於|所以|是|为|為|在|ので|から、|では|で、|なので|때문|이므로|เพราะ",
    re.IGNORECASE,
)
# Units of time and money that stand between two numbers of one amount.
UNITS = listed("""
        小时, 小時, 時間, 时, 時, 分钟, 分鐘, 分, 秒, 元, 角, 円, 点, 點, 年, 月, 日, 天, 周, 시간, 분, 년,
        월, 원, час, часа, часов, минут, минуты, день, дня, дней, год, года, лет, годин, години, stunde,
        stunden, minuten, tage, jahre, heure, heures, jours, ans, hora, horas, minutos, días, dias, años,
        anos, ore, ora, minuti, giorni, anni, uur, dagen, godzin, godziny, minut, saat, dakika, gün, giờ,
        phút, jam, menit, घंटे, घंटा, मिनट, ساعة, ساعات, ساعت, دقيقة, ชั่วโมง
    """)
