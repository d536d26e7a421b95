# SPDX-License-Identifier: Apache-2.0
"""The phrasings of every intent, and of what is not a command.

"[a|b]" is a choice. "{np}" is the device with its room ("the bedroom lamp", "lights in the hall"),
"{v}" the value, "{in}" the room as an adverb, "{place}" the room as a noun. A value written
"<name>" is a class of words.py; a sign before it makes it relative.
"""

ON_OFF = {
    "on": ["[turn|switch|put] on {np}", "[turn|switch|put] {np} on", "{np} on",
           "i [want|need] {np} on", "power up {np}", "[activate|start|enable] {np}",
           "get {np} going", "make sure {np} is on", "[can|could] {np} be on"],
    "off": ["[turn|switch] off {np}", "[turn|switch] {np} off", "{np} off",
            "i want {np} off", "power down {np}", "[deactivate|kill|disable] {np}",
            "shut {np} off", "make sure {np} is off", "[no need for|i am done with] {np}"],
    "?": ["is {np} on", "is {np} [switched|turned] on", "check [if|whether] {np} is on",
          "did i leave {np} on", "what is the state of {np}"],
}

LIGHT = {
    "power": ON_OFF,
    "brightness": {
        "<percent>": ["[set|turn|put] {np} to {v}", "dim {np} to {v}", "brighten {np} to {v}",
                      "{np} [to|at] {v}", "set the brightness of {np} to {v}", "{np} {v}",
                      "i want {np} at {v}", "change the brightness of {np} to {v}",
                      "{v} [brightness|light level] for {np}"],
        "up": ["brighten {np}", "[make|turn] {np} [brighter|a bit brighter]", "more light {in}",
               "it is too dark {in}", "i need more light {in}", "turn up {np}"],
        "down": ["dim {np}", "[make|turn] {np} [darker|a bit darker|dimmer]", "less light {in}",
                 "it is too bright {in}", "dim {np} a [bit|little]", "turn down {np}"],
        "+<step>": ["brighten {np} by {v}", "make {np} {v} brighter", "turn {np} up by {v}",
                    "[raise|increase] the brightness of {np} by {v}"],
        "-<step>": ["dim {np} by {v}", "make {np} {v} darker", "turn {np} down by {v}",
                    "[lower|reduce|decrease] the brightness of {np} by {v}"],
        "?": ["how bright is {np}", "what is the brightness of {np}"],
    },
    "color": {
        "<color>": ["[turn|make|set] {np} {v}", "change {np} to {v}", "{v} light {in}",
                    "set the color of {np} to {v}", "i want {np} [to be|in] {v}", "{np} {v}",
                    "change the colour of {np} to {v}"],
    },
}

HEAT = {
    "power": ON_OFF,
    "temperature": {
        "<degrees>": ["[set|turn|put] {np} to {v}", "{np} [to|at] {v}", "heat {place} to {v}",
                      "set the temperature {in} to {v}", "make it {v} {in}", "i want {v} {in}",
                      "set the temperature of {np} to {v}", "keep {place} at {v}",
                      "change {np} to {v}"],
        "up": ["make it [warmer|hotter] {in}", "it is [too cold|cold|freezing|chilly] {in}",
               "turn up {np}", "turn {np} up", "[raise|increase] the temperature {in}",
               "i am [cold|freezing] {in}"],
        "down": ["make it [cooler|colder] {in}", "it is [too hot|too warm|hot|boiling] {in}",
                 "turn down {np}", "turn {np} down", "[lower|reduce] the temperature {in}",
                 "i am [hot|sweating] {in}"],
        "+<degree_step>": ["turn {np} up by {v}", "[raise|increase] {np} by {v}",
                           "make it {v} warmer {in}", "{v} warmer {in}"],
        "-<degree_step>": ["turn {np} down by {v}", "[lower|reduce] {np} by {v}",
                           "make it {v} [cooler|colder] {in}", "{v} [cooler|colder] {in}"],
        "?": ["how [warm|hot|cold] is it {in}", "what is the temperature {in}",
              "tell me the temperature {in}", "what is {np} set to"],
    },
}

BLINDS = {
    "position": {
        "<percent>": ["[set|put|move] {np} to {v}", "open {np} to {v}", "{np} [to|at] {v}",
                      "i want {np} at {v}", "[raise|lower] {np} to {v}", "{np} {v}"],
        "open": ["open {np}", "[pull|roll|draw] up {np}", "raise {np}", "{np} up", "{np} open",
                 "i want {np} open", "let the sun in {in}"],
        "closed": ["close {np}", "[pull|roll|let] down {np}", "lower {np}", "{np} down",
                   "{np} closed", "i want {np} closed", "shut {np}", "keep the sun out {in}"],
        "stop": ["stop {np}", "{np} stop", "hold {np}", "stop moving {np}"],
        "?": ["[are|is] {np} [open|closed]", "how far open are {np}"],
    },
}

VOLUME = {
    "<percent>": ["set the volume of {np} to {v}", "{np} volume [to|at] {v}", "{np} volume {v}",
                  "turn the volume of {np} to {v}", "change the volume of {np} to {v}",
                  "i want the volume of {np} at {v}", "put {np} at volume {v}"],
    "up": ["turn up {np}", "turn {np} up", "make {np} louder", "{np} louder",
           "i [cannot|can't] hear {np}", "[raise|increase] the volume of {np}", "louder {np}"],
    "down": ["turn down {np}", "turn {np} down", "make {np} [quieter|softer]", "{np} quieter",
             "{np} is too loud", "[lower|reduce] the volume of {np}", "quieter {np}"],
    "+<step>": ["turn {np} up by {v}", "make {np} {v} louder",
                "[raise|increase] the volume of {np} by {v}"],
    "-<step>": ["turn {np} down by {v}", "make {np} {v} quieter",
                "[lower|reduce] the volume of {np} by {v}"],
    "mute": ["mute {np}", "silence {np}", "turn off the sound of {np}", "mute the sound of {np}"],
    "?": ["how loud is {np}", "what is the volume of {np}"],
}

MUSIC = {
    "power": ON_OFF,
    "volume": VOLUME,
    "track": {
        "next": ["skip this [song|track] {in}", "next [song|track] {in}", "play the next song {in}",
                 "skip {in}"],
        "previous": ["previous [song|track] {in}", "go back one [song|track] {in}",
                     "play the last song again {in}"],
        "pause": ["pause {np}", "pause the [song|playback] {in}", "hold the music {in}"],
        "resume": ["[resume|continue] {np}", "[resume|continue] [the song|playback] {in}",
                   "keep playing {in}"],
        "?": ["what is playing {in}", "which song is this {in}"],
    },
    "genre": {"<genre>": ["play [some|] {v} {in}", "put on [some|] {v} {in}",
                          "i want to hear [some|] {v} {in}", "play {v} music {in}",
                          "play {v} on {np}", "[start|put on] a {v} playlist {in}",
                          "how about some {v} {in}"]},
}

TV = {
    "power": ON_OFF,
    "volume": VOLUME,
    "channel": {"<channel>": ["[switch|change|set] {np} to channel {v}", "channel {v} on {np}",
                              "put channel {v} on {np}", "{np} channel {v}",
                              "show me channel {v} on {np}", "go to channel {v} on {np}"]},
}

FAN = {
    "power": ON_OFF,
    "speed": {
        "<level>": ["[set|put|turn] {np} to [speed|level] {v}", "{np} [speed|level] {v}",
                    "run {np} at [speed|level] {v}", "[speed|level] {v} for {np}"],
        "<speed>": ["[set|put|turn] {np} to {v}", "{np} on {v}", "run {np} on {v}",
                    "set the speed of {np} to {v}"],
        "up": ["speed up {np}", "make {np} faster", "{np} faster", "turn up {np}"],
        "down": ["slow down {np}", "make {np} slower", "{np} slower", "turn down {np}"],
    },
}

VACUUM = {
    "state": {
        "clean": ["[vacuum|hoover|clean] {place}", "send the [robot|vacuum] to {place}",
                  "[start|run] {np}", "have the robot clean {place}", "{place} is dirty",
                  "clean the floor {in}"],
        "stop": ["stop {np}", "pause {np}", "stop [vacuuming|cleaning] {in}",
                 "stop cleaning {place}"],
        "dock": ["dock {np}", "send {np} home", "send {np} back to its [dock|base]",
                 "charge {np}", "{np} should go home"],
        "?": ["where is {np}", "what is {np} doing", "is {np} [cleaning|running]"],
    },
}

LOCK = {
    "state": {
        "locked": ["lock {np}", "{np} lock", "make sure {np} is locked", "bolt {np}",
                   "i want {np} locked"],
        "open": ["unlock {np}", "{np} unlock", "make sure {np} is unlocked", "unbolt {np}",
                 "i want {np} unlocked"],
        "?": ["is {np} locked", "did i lock {np}", "check [if|whether] {np} is locked",
              "is {np} [open|unlocked]"],
    },
}

TIMER = {
    "time": {"<duration>": ["set a timer for {v} {in}", "[start|set] a {v} timer {in}",
                            "timer {v} {in}", "timer for {v} {in}", "{v} timer {in}",
                            "count down {v} {in}", "remind me in {v} {in}",
                            "let me know in {v} {in}"],
             "?": ["how long is left on the timer {in}", "how much time is left {in}"]},
    "state": {"cancel": ["[cancel|stop|delete|clear] the timer {in}", "no more timer {in}"],
              "pause": ["pause the timer {in}", "hold the timer {in}"],
              "resume": ["[resume|continue] the timer {in}", "timer continue {in}"]},
}

ALARM = {
    "time": {"<clock>": ["set an alarm for {v} {in}", "wake me [up|] at {v} {in}",
                         "alarm at {v} {in}", "set the alarm to {v} {in}", "alarm {v} {in}",
                         "i [want|need|have] to get up at {v} {in}",
                         "get me out of bed at {v} {in}"],
             "?": ["when is my alarm {in}", "what time is the alarm set for {in}"]},
    "state": {"off": ["[cancel|delete|clear] the alarm {in}", "turn off the alarm {in}",
                      "no alarm {in}"],
              "snooze": ["snooze {in}", "snooze the alarm {in}", "let me sleep a bit longer {in}"]},
}

COFFEE = {"cups": {"<cups>": ["make {v} cups of coffee", "brew {v} [cups of|] coffee",
                              "i want {v} coffees", "{v} cups of coffee"],
                   "off": ["turn off the coffee [machine|maker]", "no more coffee",
                           "stop the coffee machine"]}}
SCENE = {"mode": {
    "night": ["good night", "i am going to bed", "[night|sleep] mode", "time to sleep"],
    "morning": ["good morning", "i am awake", "morning mode", "rise and shine"],
    "movie": ["movie time", "movie mode", "we are watching a [film|movie]", "cinema mode"],
    "dinner": ["dinner time", "dinner mode", "dinner is ready", "we are eating"],
    "away": ["i am leaving", "away mode", "we are [leaving|going out]", "goodbye"],
    "home": ["i am [home|back]", "we are [home|back]", "home mode"]}}
GUARD = {"state": {
    "armed": ["arm the [security|alarm] system", "[turn|switch] on the security system",
              "guard the house", "arm the house"],
    "disarmed": ["disarm the [security|alarm] system", "[turn|switch] off the security system",
                 "disarm the house"],
    "?": ["is the security system [on|armed]", "is the house armed"]}}

INTENTS = {"light": LIGHT, "heat": HEAT, "blinds": BLINDS, "music": MUSIC, "tv": TV,
           "plug": {"power": ON_OFF}, "fan": FAN, "vacuum": VACUUM, "lock": LOCK, "timer": TIMER,
           "alarm": ALARM, "coffee": COFFEE, "scene": SCENE, "guard": GUARD}
