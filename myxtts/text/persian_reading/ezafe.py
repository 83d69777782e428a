"""Whether a word carries an ezafe, where the tagger is not sure: a logistic model over the words around it.

`ezafe.tsv` has the weights; `tools/train_persian_ezafe.py` makes it and says from what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from myxtts.text.rules import word_set

# Where the tagger's odds are beyond this (its natural logarithm), its answer stands.
CERTAIN = 6.0
_FAR = 9
_COPULAS = word_set(
    "است بود باشد نیست هست هستند بودند باشند شد شود شده می‌باشد می‌شود نبود شدند شوند نشد می‌شوند می‌باشند"
)
_LIGHT_VERBS = word_set(
    "کرد کند کنند کردند کرده می‌کند می‌کنند کنید کن کنیم می‌کنم داد دهد می‌دهد دادند زد زند می‌زند گرفت گیرد می‌گیرد "
    "داشت دارد دارند داشتند یافت یابد خورد می‌خورد نمود گذاشت انداخت رساند بخشید کشید آورد می‌آورد می‌کشد"
)
_CLOSED_CLASS = word_set(
    "و که را به از در با بر تا یا اما ولی این آن هر هیچ چه نیز هم همه خود او ما من شما تو آنها ایشان وی یک دو دیگر "
    "بسیار چند برای است"
)

# Words that make a verb with the verb after them («آغاز شد», «رنج کشید»), so that no ezafe stands before them.
_PARTS_OF_VERBS = word_set(
    "آزاد آسیب آشتی آشنا آغاز آماده آواز آگاه اتفاق اجازه احتیاج احساس ادامه ارزش ارزیابی ازدواج استراحت "
    "استفاده اسیر اشاره اصلاح اضافه اعتماد اعلام افزایش انتخاب انتقاد انجام اهمیت ایجاد باخبر باز بازداشت "
    "بازی بالا باور بحث بر بررسی برپا برکنار برگزار بسته بو بیدار بیرون بیمار تأکید تأیید تاکید تایید تبدیل "
    "تجربه تحسین تحمل ترک تسلیم تشویق تشکر تشکیل تصمیم تعریف تعطیل تعیین تغییر تقدیر تقسیم تمام تمجید تنبیه "
    "تنظیم توجه توزیع تولید ثبت جا جان جدا جدل جذب جریمه جمع جنگ جواب جیغ حاصل حاضر حذف حرف حرکت حس حساب حضور "
    "حمله خارج خالی خاموش خبر خداحافظی خدمت خرج خسته خنده خواب خوانده خوشحال خیانت داد در درد درمان دروغ درک "
    "دست دستور دستگیر دعوا دعوت دفاع دفع دل دور دچار دیدار دیده راه رحم رخ رد رنج رنگ رها روایت روبرو روشن "
    "روی زحمت زخمی زندگی زیان ساخته سختی سخن سر سرزنش سفر سقوط سلام سوال سود سوگند شروع شرکت شفا شناخته شنیده "
    "شهید شوخی شک شکست شکل صحبت صدا صدمه صرف صعود صلح صورت ضبط ضرب ضربه ضرر طعم طلاق ظلم عذر عصبانی غایب غم "
    "فایده فرا فراهم فرو فریاد فوت فکر قبول قرار قسم قطع قهر قول لذت لطمه مبتلا متصل متهم متواری متوقف متولد "
    "مجروح محاسبه محروم محکوم مخالف مذاکره مذموم مزه مشاهده مصرف مطرح مطلع معالجه معذرت معرفی ملاقات منتشر "
    "منصوب مواجه موافق میسر ناراحت نام نجات نزول نشان نعره نعمت نقش نقل نوشته نگاه نگران نیاز هزینه وارد وجود "
    "ورزش وصل وعده پاسخ پایان پایین پخش پر پرسش پرواز پشت پیدا پیروز پیش چاپ کار کامل کاهش کشته کمک کنار "
    "گرفتار گریه گزارش گفته گفتگو گوش یاد یقین"
)


class EzafeModel:
    """The weights, and the odds of an ezafe that they give.

    Args:
        path: lines of a feature, a tab and its weight.
    """

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        pairs = (line.split("\t") for line in lines if not line.startswith("#"))
        self._weights = {feature: float(weight) for feature, weight in pairs}

    def log_odds(self, words: Sequence[str], tags: Sequence[str], place: int, tagger_log_odds: float) -> float:
        found = sum(self._weights.get(feature, 0.0) for feature in features(words, tags, place))
        return found + self._weights["tagger"] * tagger_log_odds


@lru_cache(maxsize=4)
def _with_ezafe(labels: tuple[str, ...]) -> np.ndarray:
    return np.array([label.endswith("e") for label in labels])


def ezafe_log_odds(probabilities: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    """The tagger's odds [place] that a word carries an ezafe, as a logarithm between -8 and 8."""
    chance = probabilities @ _with_ezafe(labels)
    return np.clip(np.log((chance + 1e-6) / (1 - chance + 1e-6)), -8, 8)


def features(words: Sequence[str], tags: Sequence[str], place: int) -> list[str]:
    """What the model looks at: the tags around the word, its letters, the next verb, the object that follows."""
    count = len(words)

    def word(index: int) -> str:
        return words[index] if 0 <= index < count else "#"

    def tag(index: int) -> str:
        return tags[index] if 0 <= index < count else "#"

    def part(index: int) -> str:
        return tag(index).removesuffix("e")

    here, following, after_that = part(place), part(place + 1), part(place + 2)
    ahead = range(place + 1, min(count, place + 8))
    verb = next((index - place for index in ahead if part(index) == "V"), _FAR)
    marker = next((index - place for index in ahead if words[index] == "را"), _FAR)
    if marker > verb:
        marker = _FAR
    chain_end = place + 1
    while chain_end < count and tags[chain_end].endswith("e"):
        chain_end += 1
    chain = min(chain_end - place - 1, 3)
    start = place
    while start > 0 and tags[start - 1].endswith("e"):
        start -= 1
    first = int(start == 0 or part(start - 1) in ("PUNC", "CONJ"))
    kind = _verb_kind(word(place + verb)) if verb < _FAR else "-"
    itself = words[place]
    found = [
        "always",
        f"t={here}",
        f"t2={here}>{following}",
        f"t3={here}>{following}>{after_that}",
        f"next={tag(place + 1)}",
        f"before={tag(place - 1)}>{here}",
        f"tagged={int(tag(place).endswith('e'))}",
        f"verb={verb}",
        f"verb={min(verb, 3)} {kind} {following}",
        f"object={marker}",
        f"object={min(marker, 4)} {first}",
        f"chain={part(chain_end + 1)} {chain} {first}",
        f"end1={itself[-1:]}",
        f"end2={itself[-2:]}",
        f"end3={itself[-3:]}",
        f"next end={word(place + 1)[-2:]}",
        f"next start={word(place + 1)[:2]}",
        f"y={int(itself.endswith('ی'))} {following}",
        f"first={first}",
        f"short={int(len(itself) < 3)}",
        f"word={itself}",
        f"next word={word(place + 1)}",
    ]
    compound = int(word(place + 1) in _PARTS_OF_VERBS)
    found.append(f"compound={compound} {min(verb, 4)}")
    if after_that == "V":
        found.append(f"compound={compound} {_verb_kind(word(place + 2))}")
        found.append(f"then={_verb_kind(word(place + 2))} {following}")
    elif word(place + 2) in _CLOSED_CLASS:
        found.append(f"then={word(place + 2)} {following}")
    if kind == "copula":
        found.append(f"copula={following} {min(verb, 4)} {first}")
    return found


def train(rows: Sequence[tuple[list[str], float, bool]], penalty: float, fewest: int) -> Mapping[str, float]:
    """Weights that fit rows of features, the tagger's odds and the truth; needs SciPy.

    Args:
        rows: what `features` and `ezafe_log_odds` gave, and whether there is an ezafe.
        penalty: of the squared weights.
        fewest: features that occur less often are left out.
    """
    from collections import Counter

    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix

    counts = Counter(feature for found, _, _ in rows for feature in found)
    names = sorted(feature for feature, count in counts.items() if count >= fewest)
    numbers = {feature: number for number, feature in enumerate(names)}
    places = [[numbers[feature] for feature in found if feature in numbers] for found, _, _ in rows]
    ends = np.concatenate([[0], np.cumsum([len(row) for row in places])])
    columns = np.array([column for row in places for column in row])
    matrix = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(rows), len(names)))
    odds = np.array([value for _, value, _ in rows])
    truth = np.array([float(value) for _, _, value in rows])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        score = matrix @ weights[:-1] + odds * weights[-1]
        error = 1 / (1 + np.exp(-score)) - truth
        value = (np.logaddexp(0, score) - truth * score).sum() + penalty * (weights[:-1] @ weights[:-1])
        return value, np.append(matrix.T @ error + 2 * penalty * weights[:-1], error @ odds)

    fitted = minimize(loss, np.append(np.zeros(len(names)), 1.0), jac=True, method="L-BFGS-B").x
    return {**dict(zip(names, fitted[:-1].tolist(), strict=True)), "tagger": float(fitted[-1])}


def _verb_kind(word: str) -> str:
    return "copula" if word in _COPULAS else "light" if word in _LIGHT_VERBS else "verb"
