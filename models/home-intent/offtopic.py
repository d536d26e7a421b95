# SPDX-License-Identifier: Apache-2.0
"""Sentences that are no command for this house: the answer to them is "none".

Off-topic talk, things that cannot be switched, values out of range, half a command, and commands
that are taken back. Slots in braces are filled from TABLES; the rest of the notation is that of
phrasings.py.
"""

TABLES = {
    "city": "berlin paris london rome madrid oslo vienna lisbon dublin athens prague".split(),
    "person": "anna ben clara david emma felix grandma jonas laura mum my boss the doctor".split(),
    "food": "pizza bread milk apples cheese pasta sushi eggs chocolate soup bananas".split(),
    "thing": "dogs cats trains planets bridges shoes volcanoes spoons flowers rivers".split(),
    "topic": "football tennis chess hockey history physics politics space cooking".split(),
    "language": "french german spanish italian polish dutch".split(),
    "appliance": ["dishwasher", "oven", "washing machine", "dryer", "fridge", "sprinkler",
                  "camera", "printer", "computer", "microwave", "toaster", "doorbell"],
    "state": ["on", "off"],
}

OFF_TOPIC = [
    "what is the weather [in|like in] {city}", "how far is it to {city}",
    "book a [flight|train|hotel] to {city}", "is it raining in {city}",
    "call {person}", "send a message to {person}", "where is {person}", "how old is {person}",
    "when is the birthday of {person}", "{person} is coming at {clock}",
    "order [some|] {food}", "add {food} to the shopping list", "how do i cook {food}",
    "how many calories are in {food}", "i like {food}", "we need more {food}",
    "tell me a [joke|story] about {thing}", "how many {thing} are there in {city}",
    "do you like {thing}", "show me pictures of {thing}", "what do {thing} eat",
    "tell me about {topic}", "who won the {topic} game", "what is new in {topic}",
    "translate {thing} [into|to] {language}", "how do you say {food} in {language}",
    "what is {number} [plus|times|minus] {number}", "is {number} a prime number",
    "what time is it in {city}", "what day is [it|tomorrow]", "what time is it",
    "who are you", "how are you", "hello", "sing a song about {thing}", "thank you",
    "tell me a joke", "read me the news", "what is the news about {topic}",
    "remind me to [call|visit|ask] {person}", "i am [tired|hungry|bored|happy]",
    "the {thing} are {color}", "my favourite color is {color}", "i saw {number} {thing}",
    "paint {place} {color}", "where is {place}", "i love {place}", "{place} is {color}",
    "how big is {place}", "who is [in|using] {place}", "i am going to {place}",
]

UNSUPPORTED = [
    "[turn|switch] {state} the {appliance}", "[turn|switch] the {appliance} {state}",
    "[start|stop] the {appliance}", "is the {appliance} {state}", "open the {appliance}",
    "set the {appliance} to {degrees}", "{appliance} {state}", "what is the {appliance} doing",
    "turn {state} the {appliance} {in}", "set the {appliance} {in} to {percent}",
    "how much does a new {device} cost", "buy a new {device}", "who made the {device}",
    "clean the {device}", "move the {device} to {place}", "the {device} is [broken|new|nice]",
    "i like the {color} {device}", "where did i put the {device}",
]

OUT_OF_RANGE = [
    "set the {percent_device} to {too_much} percent", "{percent_device} to {too_much} percent",
    "set the {percent_device} {in} to {too_much} percent",
    "put the {percent_device} at {too_much}%",
    "set the heating to {too_hot} degrees", "set the heating {in} to {too_hot} degrees",
    "make it {too_hot} degrees {in}", "heat {place} to {too_hot} degrees",
    "set the volume of the {sound_device} to {too_much}",
]

HALF = [
    "turn [on|off|up|down]", "set {np} to", "turn {np}", "{np}", "set the", "{np} to", "the",
    "set the volume of", "change {np}", "can you", "{place}", "in {place}", "make it", "play",
    "set an alarm for", "set a timer", "{percent}", "{number} and {number}", "{color}",
    "the {color}",
]

TAKEN_BACK = ["do not {command}", "don't {command}", "please don't {command}",
              "never mind do not {command}", "you should not {command}"]
