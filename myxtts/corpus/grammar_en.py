"""A small English grammar. All verbs are in the past tense, so that each fits every subject."""

from __future__ import annotations

_PERSON = (
    "the old sailor", "my younger sister", "our neighbour", "the village doctor", "a quiet stranger",
    "the judge", "their uncle George", "the music teacher", "a joyful child", "the royal cook",
    "her best friend", "the night watchman", "a tired farmer", "the young engineer", "that clever thief",
    "the famous painter", "his grandmother", "the ship's captain", "a foreign merchant",
    "the shy librarian", "the tall butcher", "every soldier", "the blacksmith", "a cheerful nurse",
    "the mayor of the town", "Margaret", "Theodore", "Joyce", "Hugh", "Charlotte", "an honest lawyer",
    "the train driver", "the youngest boy", "one of the workers", "the choir leader", "a wealthy widow",
    "the beekeeper", "an usher in uniform", "the noisy guard",
)  # fmt: skip

_THING = (
    "the wooden box", "a heavy suitcase", "the blue envelope", "an unusual treasure", "the broken clock",
    "a loaf of white bread", "the church key", "a bag of oranges", "the silver measure", "an ancient map",
    "the leather glove", "a beige jacket", "the fishing boat", "a jar of honey", "the kitchen table",
    "a pair of spectacles", "the iron gate", "a bunch of yellow flowers", "the wet umbrella",
    "a voice in the fog", "the last candle", "a cup of strong coffee", "the boiling water",
    "an owl's feather", "the thick book", "a pound of sugar", "the oil painting", "a brown horse",
    "the shining coin", "an empty bottle", "the garden wall", "a piece of cheese", "the youngest sheep",
    "a mirage on the road", "the rusty bicycle", "her measuring tape", "a wreath of thyme",
    "the juicy pear", "a loose tooth", "the purple cushion",
)  # fmt: skip

_PLACE = (
    "near the harbour", "under the bridge", "in the garden", "behind the old theatre", "beside the river",
    "on the third floor", "at the edge of the forest", "across the valley", "in the middle of the square",
    "outside the palace", "along the southern shore", "above the bakery", "inside the empty garage",
    "between two narrow houses", "at the railway station", "by the fire", "on top of the hill",
    "in the hall of justice", "beneath a huge oak tree", "through the open doorway", "among the tall reeds",
    "in a room full of mirrors", "around the corner", "past the sugar mill", "on board the royal yacht",
)  # fmt: skip

_TIME = (
    "yesterday", "in the early morning", "after breakfast", "before the storm", "at noon",
    "on Thursday evening", "during the long winter", "one August night", "just before sunrise",
    "many years ago", "within the hour", "at the usual time", "on the first day of June",
    "without any warning", "a week later", "that very afternoon", "soon after the war",
    "for the fourth time", "until half past five", "as the bells were ringing",
)  # fmt: skip

_DID_THING = (
    "found", "carried", "lost", "bought", "measured", "put down", "pushed aside", "noticed", "finally sold",
    "kept", "chose", "threw away", "described", "enjoyed", "repaired", "brought home", "examined",
    "borrowed", "dropped", "pointed at", "could not move", "had already hidden", "looked for",
    "refused to touch", "washed", "quickly wrapped", "would have given away", "watched", "painted",
    "asked about", "thought of", "should have saved",
)  # fmt: skip

_DID = (
    "laughed", "waited", "walked slowly", "fell asleep", "sang a few verses", "coughed twice",
    "shouted for joy", "began to cook", "stood perfectly still", "turned around", "whistled", "vanished",
    "breathed deeply", "worked alone", "shook with cold", "spoke to nobody", "yawned",
    "counted to a hundred", "prayed in silence", "danced", "went on reading", "hurried away",
    "stayed awake", "took a deep breath", "chewed thoughtfully",
)  # fmt: skip

_TOLD = (
    "said that", "believed that", "had heard that", "was certain that", "wrote in a letter that",
    "knew that", "whispered that", "dreamed that", "assured everyone that", "could see that",
    "never admitted that",
)  # fmt: skip

_LINK = (
    "and", "but", "because", "while", "although", "so", "just as", "until", "before", "after", "whenever",
    "since",
)  # fmt: skip

_SHORT = (
    "what a pleasure to see you again!", "is anybody there?", "the journey was over.",
    "who told you about this?", "nothing was the same after that.", "please close the door.",
    "they had no choice.", "it was a cold, clear day.", "how far is the nearest village?",
    "five of them were missing.", "we should go now.", "good news travels fast.",
    "there was a large explosion.", "where did you put the other shoe?", "she gave me a mysterious look.",
    "our decision is final.", "he never saw the ocean.", "such beauty is rare.", "do you hear the thunder?",
    "you are quite right, of course.", "the answer was yes.", "both doors were locked.",
    "as usual, he was late.",
)  # fmt: skip

ENGLISH: dict[str, tuple[str, ...]] = {
    "person": _PERSON,
    "thing": _THING,
    "place": _PLACE,
    "time": _TIME,
    "did_thing": _DID_THING,
    "did": _DID,
    "told": _TOLD,
    "link": _LINK,
    "short": _SHORT,
    "clause": (
        "{person} {did_thing} {thing}",
        "{person} {did}",
        "{person} {did} {place}",
        "{person} {did_thing} {thing} {place}",
    ),
    "brief": (
        "{short}",
        "{person} {did}.",
        "{person} {did_thing} {thing}.",
        "{time}, {person} {did}.",
    ),
    "middling": (
        "{person} {did_thing} {thing} {place}.",
        "{time}, {person} {did_thing} {thing}.",
        "{place}, {person} {did_thing} {thing}.",
        "{time}, {person} {did_thing} {thing} {place}.",
        "{person} {told} {clause}.",
        "did {person} know that {clause}?",
    ),
    "long": (
        "{person} {did} {place}, {link} {person} {did_thing} {thing}.",
        "{clause}, {link} {clause}.",
        "{time}, {clause}, {link} {clause}.",
        "{clause}, {link} {clause} {time}.",
        "{person} {told} {clause}, {link} {clause}.",
        "{time}, {person} {told} {clause}, {link} {person} {did}.",
        "{person}, {person} and {person} {did} {place}, {link} {clause}.",
        "{place}, {clause}; {time}, {clause}.",
    ),
    "sentence": ("{brief}", "{middling}", "{middling}", "{long}", "{long}", "{long}"),
}
