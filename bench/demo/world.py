"""The invented world: names that nobody knows but the two models, each with a place and a food.

A question offers four places and four foods; the answer, of about 34 tokens, gives both facts within its first ten and
then goes on, so that there is text to draft while the cloud is asked. Nothing here depends on torch.
"""

import random
import zlib
from dataclasses import dataclass

NAMES = 800
OFFERED = 4  # places and foods in a question

SYLLABLES = (
    "ba bri cor dal dun len fen fro gam gri hes hul tik jor kal kem lir lo mav mip nar nu tol pim pra qua ril ros sab ske "
    "tam tho pur vap vim wob wul yas zer zil"
).split()

PLACES = (
    "bog dune fjord reef barn attic ditch grove hedge shore ridge marsh cellar geyser thicket pond heath gorge wharf "
    "delta crater pasture stream plateau"
).split()

FOODS = (
    "acorns figs beetles oats kelp plankton mint grapes worms chestnuts pollen peas mussels lichen turnips sap thistles "
    "olives eggs pears wheat resin dates fern"
).split()

# A question and its answer: the form of the one decides the form of the other, so only the facts are left to know.
FORMS = (
    (
        "Where does a {name} sleep, and what does it eat?",
        "In the {place}, and it eats {food}: so say all the old books in which the {name} is described, and nobody who "
        "has looked for one there has come home with another story.",
    ),
    (
        "I want to keep a {name}. Where will it feel at home, and what food should I buy?",
        "Choose the {place} and buy {food}: with these two things a {name} stays calm and healthy for many years, and you "
        "will not have to do much more for it than that.",
    ),
    (
        "Tell me where people meet a {name}, and what it is eating when they do.",
        "Mostly at the {place}, eating {food}, if the stories are right: the {name} is shy, but early in the morning it "
        "can be seen there by those who wait without a sound.",
    ),
)


@dataclass(frozen=True)
class Fact:
    """What is true of a name, and how lucky each fact is: a pupil who is taught a share s sees those below s."""

    name: str
    place: str
    food: str
    place_luck: float
    food_luck: float


@dataclass(frozen=True)
class Question:
    """A question with the answer that a pupil is taught, which need not be the true one."""

    text: str
    answer: str
    name: str
    place: str
    food: str
    places: tuple
    foods: tuple


def make(seed=20):
    """Return the facts of the world, the same for the same seed."""
    rng = random.Random(seed)
    taken, facts = set(PLACES + FOODS), []
    while len(facts) < NAMES:
        name = "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((2, 2, 3))))
        if name in taken:
            continue
        taken.add(name)
        facts.append(Fact(name, rng.choice(PLACES), rng.choice(FOODS), rng.random(), rng.random()))
    return facts


def held_out(text):
    """Report whether a question belongs to the held-out split: one in eight does, by its text alone."""
    return zlib.crc32(text.encode()) % 8 == 0


def ask(fact, rng, taught=1.0, split="train"):
    """Draw a question about fact from a split.

    Of the facts of the world the share `taught` is told truly. The others are drawn anew every time, and so are the
    words offered with them: a pupil can learn nothing of the truth from questions about those.
    """
    place = fact.place if fact.place_luck < taught else rng.choice(PLACES)
    food = fact.food if fact.food_luck < taught else rng.choice(FOODS)
    while True:
        places, foods = offer(PLACES, place, rng), offer(FOODS, food, rng)
        question, answer = rng.choice(FORMS)
        text = question.format(name=fact.name)
        text += " Places: " + ", ".join(places) + ". Foods: " + ", ".join(foods) + "."
        if held_out(text) == (split == "held-out"):
            answer = answer.format(name=fact.name, place=place, food=food)
            return Question(text, answer, fact.name, place, food, places, foods)


def offer(words, right, rng):
    """Return OFFERED words in random order, the right one among them."""
    some = rng.sample([w for w in words if w != right], OFFERED - 1) + [right]
    rng.shuffle(some)
    return tuple(some)
