"""Whether a word carries an ezafe, where the tagger is not sure: a logistic model over the words around it.

`ezafe.tsv` has the weights; `tools/train_persian_ezafe.py` makes it and says from what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from myxtts.text.rules import word_set

# Where the tagger's odds are beyond this (its natural logarithm), its answer stands.
CERTAIN = 6.0
_FAR = 9
_SIGHT = 8  # a verb or an object marker this many words ahead is not looked at
_MOST_SUMS = 200_000

Group = tuple[str | int, ...]  # its kind, and all that its features depend on

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
        self._sums: dict[Group, float] = {}

    def log_odds(self, sentence: TaggedSentence, place: int, tagger_log_odds: float) -> float:
        total = self._weights["tagger"] * tagger_log_odds
        for group in sentence.groups(place):
            found = self._sums.get(group)
            if found is None:
                if len(self._sums) > _MOST_SUMS:
                    self._sums.clear()
                found = self._sums[group] = sum(self._weights.get(feature, 0.0) for feature in _features_of(group))
            total += found
        return total


def ezafe_log_odds(probabilities: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The tagger's odds [place] that a word carries an ezafe, as a logarithm between -8 and 8."""
    # Not a product of matrices: its last digit depends on how many words are in the batch.
    chance = probabilities[:, [label.endswith("e") for label in labels]].sum(axis=1)
    return np.clip(np.log((chance + 1e-6) / (1 - chance + 1e-6)), -8, 8)


class TaggedSentence:
    """Words with their tags, and what follows from the tags for each place: the next verb, chains of ezafes.

    Args:
        words: of a sentence, marks included.
        tags: the tagger's labels of them.
    """

    def __init__(self, words: Sequence[str], tags: Sequence[str]) -> None:
        count = len(words)
        parts = [tag.removesuffix("e") for tag in tags]
        # Two places more, so that the last word has followers; the last of them also stands before the first word.
        self._words = [*words, "#", "#", "#"]
        self._tags = [*tags, "#", "#", "#"]
        self._parts = [*parts, "#", "#", "#"]
        self._chain_start_is_first = [True] * count
        self._chain_end = [count] * (count + 1)
        self._verb = [_FAR] * count
        self._object = [_FAR] * count
        for place in range(1, count):
            self._chain_start_is_first[place] = (
                self._chain_start_is_first[place - 1]
                if tags[place - 1].endswith("e")
                else parts[place - 1] in ("PUNC", "CONJ")
            )
        verb = marker = count + _FAR
        for place in range(count - 1, -1, -1):
            if verb - place < _SIGHT:
                self._verb[place] = verb - place
            if marker - place < _SIGHT and marker < verb:
                self._object[place] = marker - place
            self._chain_end[place] = self._chain_end[place + 1] if tags[place].endswith("e") else place
            if parts[place] == "V":
                verb = place
            if words[place] == "را":
                marker = place

    def groups(self, place: int) -> tuple[Group, ...]:
        """What the model looks at. Features of a group depend on nothing else, so that their sum is computed once."""
        words, tags, parts = self._words, self._tags, self._parts
        verb, following, then = self._verb[place], parts[place + 1], ""
        next_word, word_after = words[place + 1], words[place + 2]
        compound = next_word in _PARTS_OF_VERBS
        if parts[place + 2] == "V":
            then = _verb_kind(word_after)
        elif word_after in _CLOSED_CLASS:
            then = word_after
        first = self._chain_start_is_first[place]
        chain_end = self._chain_end[place + 1]
        kind = _verb_kind(words[place + verb]) if verb < _FAR else "-"
        return (
            ("word", words[place], following),
            ("next", next_word),
            ("tags", tags[place - 1], tags[place], tags[place + 1], parts[place + 2]),
            ("verb", verb, kind, following, first, compound),
            ("object", self._object[place], first, parts[chain_end + 1], min(chain_end - place - 1, 3)),
            ("then", then, parts[place + 2] == "V", following, compound),
        )


def features(words: Sequence[str], tags: Sequence[str], place: int) -> list[str]:
    """The names of what the model looks at: the tags around the word, its letters, the next verb, the object."""
    return [name for group in TaggedSentence(words, tags).groups(place) for name in _features_of(group)]


def _features_of(group: Group) -> list[str]:
    match group:
        case ("word", str(word), following):
            return [
                f"end1={word[-1:]}",
                f"end2={word[-2:]}",
                f"end3={word[-3:]}",
                f"short={int(len(word) < 3)}",
                f"word={word}",
                f"y={int(word.endswith('ی'))} {following}",
            ]
        case ("next", str(word)):
            return [f"next end={word[-2:]}", f"next start={word[:2]}", f"next word={word}"]
        case ("tags", before, str(tag), str(following), after_that):
            here, following_part = tag.removesuffix("e"), following.removesuffix("e")
            return [
                "always",
                f"t={here}",
                f"t2={here}>{following_part}",
                f"t3={here}>{following_part}>{after_that}",
                f"next={following}",
                f"before={before}>{here}",
                f"tagged={int(tag.endswith('e'))}",
            ]
        case ("verb", int(verb), kind, following, first, compound):
            names = [
                f"verb={verb}",
                f"verb={min(verb, 3)} {kind} {following}",
                f"compound={compound:d} {min(verb, 4)}",
            ]
            return [*names, f"copula={following} {min(verb, 4)} {first:d}"] if kind == "copula" else names
        case ("object", int(marker), first, after_chain, chain):
            return [
                f"object={marker}",
                f"object={min(marker, 4)} {first:d}",
                f"first={first:d}",
                f"chain={after_chain} {chain} {first:d}",
            ]
        case ("then", then, is_verb, following, compound):
            names = [f"then={then} {following}"] if then else []
            return [*names, f"compound={compound:d} {then}"] if is_verb else names
    raise ValueError(f"no features are known of {group}")


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
