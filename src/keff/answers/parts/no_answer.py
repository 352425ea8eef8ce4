"""Words that say "no answer": one list for all answer spaces, readers and commands.

Scorers, tables and servers write them where an answer should be ("[invalid]", "N/A", "ERROR: timeout").
Counted as answers they agree with each other and win votes. A word that is an answer (country NA, the Python
value None) is kept by the option ``keep`` of its answer space: ``text:keep=NA``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from keff.answers.parts import json_text
from keff.answers.parts.base import Explains, Extracted, Space, fold, golds
from keff.answers.parts.statements import last_place, plain, statements
from keff.answers.parts.thinking import strip_thinking
from keff.narrow import fields

# Longer ones are sentences that say more than that there is none.
LONGEST = 200
WHY = "a word for no answer"

_SIGNS = re.compile(r"[\W_]+")


def bare(text: str) -> str:
    """Return a word as it is compared: lower case, without signs."""
    return _SIGNS.sub(" ", text.lower()).strip()


_WORDS = frozenset(
    bare(line)
    for line in """
    none, null, nan, n/a, #n/a n/a, 1.#ind, 1.#qnan, error, not available, not applicable, noanswer,
    no ans, noans, not found, notfound, unparsable, unparseable, timed out, null answer, your answer,
    your answer here, idk, 无, 无答案, 没有答案, 無答案, 错误, 未知答案, 不知道, 未找到, 我不知道,
    回答なし, 答えなし, 解答なし, 該当なし, エラー, わかりません, 分かりません, 없음, 답 없음, 답변 없음,
    오류, 모름, 알 수 없음, нет ответа, ошибка, не знаю, ответ не найден, немає відповіді, няма отговор,
    brak odpowiedzi, błąd, nie wiem, bez odpovědi, žádná odpověď, nincs válasz, fără răspuns,
    keine antwort, kein ergebnis, keine angabe, fehler, ich weiß es nicht, ich weiß nicht, geen antwoord,
    inget svar, intet svar, ingen svar, ei vastausta, aucune réponse, pas de réponse, erreur,
    je ne sais pas, sin respuesta, no sé, sem resposta, não sei, erro, nessuna risposta, errore,
    non lo so, cevap yok, bilmiyorum, hata, không có câu trả lời, tôi không biết, lỗi, tidak ada jawaban,
    tidak tahu, saya tidak tahu, hakuna jibu, sijui, walang sagot, कोई उत्तर नहीं, पता नहीं, त्रुटि,
    لا إجابة, لا توجد إجابة, لا أعرف, خطأ, بدون پاسخ, نمی دانم, אין תשובה, לא יודע, ไม่มีคำตอบ, ไม่ทราบ
    """.replace("\n", ",").split(",")
    if line.strip()
)
# Words that are answers too (an argument is invalid, a relation unknown): only in the brackets of a scorer.
_IN_BRACKETS = re.compile(
    r"[\[<{(]+\s*/?(?:invalid|failed|failure|missing|empty|blank|unknown|skipped|refused|refusal|truncated|timeout"
    r"|unanswered|undefined|abstain|abstained|unparsed|unparsable|nil|na|unk"
    r"|unanswerable|tie|tbd|todo|fail|(?:the |your |final ){0,2}answer(?: here)?)"
    r"\s*[\]>})]+",
    re.IGNORECASE,
)
_THING = (
    r"(?:answers?|responses?|outputs?|predictions?|results?|match(?:es)?|consensus|majority|agreement|winner"
    r"|format|choices?|options?"
    r"|completions?|generations?|reply|replies)"
)
_ADJECTIVE = r"(?:(?:valid|final|clear|parsed|extracted|correct|single|boxed|the|an?|any) ){0,3}"
_MADE = r"(?:found|given|provided|available|extracted|detected|returned|parsed|generated|produced|recorded)"
_VERB = r"(?:extract|parse|find|match|read|generate|complete|score|grade|decode|produce|obtain|locate)"
_FORMS = re.compile(
    rf"(?:no|missing|empty|invalid|blank|unparsed|unparsable|unreadable) {_ADJECTIVE}{_THING}"
    rf"(?: (?:was|were))?(?: {_MADE})?|{_THING} (?:(?:was|is|could) )?not (?:be )?{_MADE}"
    rf"|(?:failed|unable|could not|couldn t|cannot|can t|failure)(?: to)? {_VERB}\b.*"
    r"|(?:answer |output |json |api |request |server |generation |scoring |execution |runtime )?"
    r"(?:extraction|extract|parse|parsing|parser|matching|generation|api|request|scoring|decoding|decode|timeout)"
    r" (?:failed|failure|fail|error|timed out)\b.*"
    # Servers and clients that failed.
    r"|(?:json ?decode|json|api|rate ?limit|timeout|connection|internal ?server|extraction|pars(?:e|ing)|http"
    r"|network) ?(?:error|exception)"
    r"|(?:http )?(?:4\d\d|5\d\d) (?:bad|too many|internal|service|gateway|forbidden|request)\b.*"
    r"|http [45]\d\d|(?:request|connection|read) (?:has )?timed out|rate limit (?:exceeded|reached)"
    r"|(?:max(?:imum)? )?(?:context|tokens?)(?: (?:length|limit|window))? (?:exceeded|reached)"
    # The model itself has none.
    r"|(?:(?:i m |i am )?(?:sorry|afraid)(?: but)? )?(?:i|we)"
    r" (?:do not|don t|did not|didn t|cannot|can t|can not"
    r"|could not|couldn t|am unable to|m unable to|am not able to|m not able to|was unable to)"
    r" (?:know|answer|determine|find|provide|help|assist|solve|give|comply|tell)\b(?:(?! but\b| maybe\b)\D)*"
    r"|(?:未|未能|无法|無法|没有|沒有|没能)(?:提取|找到|解析|回答|识别|获取|给出|生成|作答)(?:到|出)?"
    r"(?:该|此|有效|最终)?(?:答案|问题|結果|结果)?"
    r"|(?:提取|解析|生成)(?:答案)?(?:失败|失敗|错误)"
)
_FAULT = re.compile(r"\W*(?:\w{0,30}error|\w{0,30}exception|traceback)\b[^:\n]{0,40}:", re.IGNORECASE)
_OBJECT = re.compile(r'\{\s*"')
# Spaces in which "answer = None" is a line of the answer.
_OF_CODE = frozenset({"json", "code", "sql"})


@lru_cache(maxsize=2**16)
def says_none(answer: str) -> bool:
    """Return whether an answer is a word for "no answer"."""
    if len(answer) > LONGEST or not answer.strip():
        return False
    text = plain(fold(answer)).strip()
    # Na is an element, and "na" a word in many languages.
    if not text or text.strip("#\"'*.`") == "NA" or _IN_BRACKETS.fullmatch(text) or _FAULT.match(text):
        return True
    if _OBJECT.match(text):
        return False
    words = bare(text)
    return words in _WORDS or _FORMS.fullmatch(words) is not None


class Abstaining:
    """Wraps a space so that words for "no answer" abstain, but for those in ``keep``.

    So does a text whose last statement is such a word, whatever number or letter stands before it, and, where
    ``documents`` may hold one value, a JSON document whose answer is null or such a word.
    """

    def __init__(self, inner: Space, keep: Collection[str] = (), *, documents: bool = False) -> None:
        self.inner, self.keep, self._documents = inner, frozenset(map(bare, keep)), documents
        self.name, self.closed, self.contract = inner.name, inner.closed, inner.contract

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the inner space."""
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def says_none(self, answer: str) -> bool:
        """Return whether an answer is a word for "no answer" that is not kept."""
        if self._documents and answer.lstrip()[:1] in ("{", "`"):
            answer = _member(answer)
        return says_none(answer) and bare(answer) not in self.keep

    def extract(self, text: str, *, truncated: bool = False) -> Extracted | None:
        """Return the inner space's answer; None where the text, or its last statement, says "no answer"."""
        found = self.inner.extract(text, truncated=truncated)
        return None if found is None or self._states_none(text, found.answer) else found

    def key(self, answer: str) -> str | None:
        """Return the inner space's key; None for a word for "no answer", also where only the key is one."""
        key = None if self.says_none(answer) else self.inner.key(answer)
        return None if key is None or self.says_none(key) else key

    def correct(self, answer: str, gold: object) -> bool:
        """Return whether the answer is one, and agrees with an acceptable gold answer."""
        return not self.says_none(answer) and self.inner.correct(answer, gold)

    def states(self, gold: object) -> bool:
        """Return whether a gold answer is one: neither missing nor a word for "no answer"."""
        return gold is not None and not all(map(self.says_none, golds(gold)))

    def why(self, text: str) -> str | None:
        """Return why a text or an answer abstains."""
        if self._states_none(text):
            return WHY
        return self.inner.why(text) if isinstance(self.inner, Explains) else None

    def _states_none(self, text: str, found: str = "") -> bool:
        """Return whether a text says "no answer"; quickly where it states what was ``found`` last."""
        shown = strip_thinking(text)
        if self.says_none(shown):
            return True
        place = last_place(shown)
        if self.name in _OF_CODE or place < 0 or (found and shown.find(found, place) >= 0):
            return False
        last = next(statements(shown), None)
        return last is not None and self.says_none(last.payload)


def _member(document: str) -> str:
    """Return the answer that a JSON document names, null as a word; empty where it names none."""
    try:
        members = fields(json_text.value_of(json_text.unfenced(document)))
    except json_text.NotRead:
        return ""
    said = next((members[name] for name in json_text.ANSWER_MEMBERS if name in members), "")
    return "null" if said is None else said if isinstance(said, str) else ""
