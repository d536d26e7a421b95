# SPDX-License-Identifier: Apache-2.0
"""Runs Arenite's model files from Python, by ctypes and numpy.

  model = arenite.Model("sentences.arn")
  vectors = model.embed(["the pump is loud", "a noisy pump"])       # float32 [2, features]

  session = arenite.Model("sensor.arn").session(positions_max=64)
  rows = session.run(window)                                        # float32 [rows, features]

  for piece in arenite.Model("stories.arn").generate("Once upon a time", tokens=50):
      print(piece, end="")

Needs the shared library of the same minor version: libarenite.so beside this file, in the system's
folders, or at $ARENITE_LIBRARY. Calls that are refused raise Error, with the C interface's reason.
Names and rules are those of arenite/arenite.h, which documents them in full.
"""

import codecs
import ctypes
import ctypes.util
import mmap
import os
import pathlib
import unicodedata

import numpy

VERSION = "0.1.0"  # of arenite/version.h

_U8, _U32, _U64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64
_SIZE, _BOOL, _FLOAT, _STRING = ctypes.c_size_t, ctypes.c_bool, ctypes.c_float, ctypes.c_char_p
_POINTER = ctypes.c_void_p
NO_TOKEN = 2**32 - 1
INPUTS_MAX = 4
GROUP_TOKENS = 4096  # of one call of embed and classify
CHUNK = 64           # tokens of a prompt that are fed in one call
OUTPUTS = {"last": 0, "all": 1}
KV_TYPES = {None: 0, "f32": 1, "int8": 2}


class Error(ValueError):
    """A call that was refused: its arenite_status, and the field that was wrong."""

    def __init__(self, text, status=1, field=""):
        super().__init__(text)
        self.status = status
        self.field = field


def _struct(name, *fields):
    """A structure of the C interface. Tests compare its layout with the header's."""
    return type(name, (ctypes.Structure,), {"_fields_": list(fields)})


_Diagnostic = _struct(
    "arenite_diagnostic", ("reason", _STRING), ("field", _STRING), ("index", _U32),
    ("found", _U64), ("expected", _U64), ("bytes_needed", _SIZE), ("file_targets", _U32),
    ("cpu_targets", _U32))
_LoadOptions = _struct(
    "arenite_load_options", ("force_target", _BOOL), ("target", _U32), ("checksums", _U32))
_Model = _struct("arenite_model", ("opaque", _U64 * 3))
_InputInfo = _struct(
    "arenite_input_info", ("name", _STRING), ("features", _U32), ("vocab_size", _U32),
    ("token_types", _U32), ("positions_max", _U32), ("tokens_min", _U32), ("tokens_step", _U32),
    ("takes_pairs", _BOOL))
_FunctionInfo = _struct(
    "arenite_function_info", ("name", _STRING), ("inputs", _U32), ("inputs_read", _U32),
    ("output_features", _U32), ("pooled", _BOOL), ("causal", _BOOL), ("first_op", _U32),
    ("ops", _U32))
_ParallelFor = _struct(
    "arenite_parallel_for", ("threads", _U32), ("run", _POINTER), ("pool", _POINTER))
_ProfileHook = _struct(
    "arenite_profile_hook", ("op_begins", _POINTER), ("op_ends", _POINTER), ("context", _POINTER))
_HiddenStateHook = _struct(
    "arenite_hidden_state_hook", ("state", _POINTER), ("context", _POINTER))
_InputSizes = _struct("arenite_input_sizes", ("positions_max", _U32), ("tokens_max", _U32))
_SessionOptions = _struct(
    "arenite_session_options", ("positions_max", _U32), ("tokens_max", _U32),
    ("sequences_max", _U32), ("outputs", _U32), ("kv_cache", _U32), ("parallel", _ParallelFor),
    ("profile", _ProfileHook), ("hidden_states", _HiddenStateHook),
    ("others", _InputSizes * (INPUTS_MAX - 1)))
_ArenaPlan = _struct(
    "arenite_arena_plan", ("session_bytes", _SIZE), ("kv_cache_bytes", _SIZE),
    ("activation_bytes", _SIZE), ("scratch_bytes", _SIZE), ("total_bytes", _SIZE))
_Batch = _struct(
    "arenite_batch", ("features", _POINTER), ("size", _SIZE), ("sequences", _U32),
    ("tokens", _U32), ("lengths", _POINTER), ("visible", _POINTER), ("back_to_back", _BOOL),
    ("pairs", _POINTER), ("outputs", _POINTER))
_TokenBatch = _struct(
    "arenite_token_batch", ("ids", _POINTER), ("size", _SIZE), ("sequences", _U32),
    ("tokens", _U32), ("lengths", _POINTER), ("visible", _POINTER), ("back_to_back", _BOOL),
    ("types", _POINTER), ("pairs", _POINTER), ("outputs", _POINTER))
_Output = _struct("arenite_output", ("data", _POINTER), ("rows", _U32), ("features", _U32))
_Input = _struct(
    "arenite_input", ("batch", ctypes.POINTER(_Batch)), ("tokens", ctypes.POINTER(_TokenBatch)))
_ImageShape = _struct(
    "arenite_image_shape", ("channels", _U32), ("height", _U32), ("width", _U32))
_Tokenizer = _struct("arenite_tokenizer", ("opaque", _U64 * 2))
_EncodeOptions = _struct(
    "arenite_encode_options", ("add_bos_and_end", _BOOL), ("read_specials", _BOOL),
    ("tokens_max", _SIZE))
_DecodeOptions = _struct(
    "arenite_decode_options", ("keep_specials", _BOOL), ("is_continuation", _BOOL))
_Text = _struct("arenite_text", ("data", _POINTER), ("bytes", _SIZE))
_TextParts = _struct("arenite_text_parts", ("head", _Text), ("tail", _Text))
_TextStream = _struct("arenite_text_stream", ("opaque", _U64 * 5))
_SamplerOptions = _struct(
    "arenite_sampler_options", ("repetition_penalty", _FLOAT), ("temperature", _FLOAT),
    ("top_k", _U32), ("top_p", _FLOAT), ("min_p", _FLOAT), ("seed", _U64))
_Candidate = _struct("arenite_candidate", ("weight", _FLOAT), ("id", _U32))
_Sampler = _struct("arenite_sampler", ("opaque", _U64 * 5))

# Results of functions that return no status.
_RESULTS = {
    "arenite_version": _STRING, "arenite_describe": _SIZE, "arenite_model_name": _STRING,
    "arenite_model_label": _STRING, "arenite_model_input": _InputInfo,
    "arenite_model_function": _FunctionInfo, "arenite_model_image_shape_of": _ImageShape,
    "arenite_text_stream_next": _TextParts,
    "arenite_text_stream_finish": _TextParts, "arenite_sampler_candidates_needed": _SIZE,
    "arenite_tokenizer_bos": _U32, "arenite_tokenizer_is_end": _BOOL,
    "arenite_tokenizer_expects_nfc": _BOOL,
    "arenite_text_stream_init": None, "arenite_session_reset": None,
    "arenite_kernel_set_name": _STRING}


def _load_library():
    named = os.environ.get("ARENITE_LIBRARY")
    beside = pathlib.Path(__file__).resolve().parent / "libarenite.so"
    found = named or (str(beside) if beside.exists() else ctypes.util.find_library("arenite"))
    if not found:
        raise ImportError("libarenite.so was not found: build with -DBUILD_SHARED_LIBS=ON and "
                          "install it, or name the file in ARENITE_LIBRARY")
    library = ctypes.CDLL(found)
    library.arenite_version.restype = _STRING
    version = library.arenite_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise ImportError(f"{found} is version {version}, arenite.py is for {VERSION}: install "
                          "both from one release")
    for name, result in _RESULTS.items():
        getattr(library, name).restype = result
    return library


_c = _load_library()


def _call(name, *arguments):
    """Calls a function that returns a status; raises Error with its reason."""
    why = _Diagnostic()
    status = getattr(_c, name)(*arguments, ctypes.byref(why))
    if status != 0:
        line = ctypes.create_string_buffer(1024)
        _c.arenite_describe(status, ctypes.byref(why), line, _SIZE(1024))
        raise Error(line.value.decode("utf-8", "replace"), status,
                    (why.field or b"").decode())


def _bytes_of(text):
    return ctypes.string_at(text.data, text.bytes) if text.bytes else b""


class Model:
    """A verified model file, mapped from `path` or given as bytes, which are not copied if they
    are aligned. Any number of sessions and threads may share it.

    name, vocab_size, input_features, output_features, positions_max, causal, pooled, kernel_set:
    as in arenite.h, of the first input and function. inputs, functions: lists of all. labels: names
    of the output's columns, or []."""

    def __init__(self, path_or_bytes, *, target=None, verify_checksums=True):
        self._file = _aligned(path_or_bytes)
        self._model = _Model()
        options = _LoadOptions(target is not None, target or 0, 0 if verify_checksums else 1)
        _call("arenite_model_load", ctypes.byref(self._model), _POINTER(self._file.ctypes.data),
              _SIZE(self._file.size), ctypes.byref(options))
        of = ctypes.byref(self._model)
        self.name = _c.arenite_model_name(of).decode()
        self.inputs = [_c.arenite_model_input(of, _U32(i))
                       for i in range(_c.arenite_model_inputs(of))]
        self.functions = [_c.arenite_model_function(of, _U32(i))
                          for i in range(_c.arenite_model_functions(of))]
        self.labels = [_c.arenite_model_label(of, _U32(i)).decode()
                       for i in range(_c.arenite_model_labels(of))]
        self.images = [_c.arenite_model_image_shape_of(of, _U32(i))
                       for i in range(len(self.inputs))]
        first = self.inputs[0]
        self.vocab_size, self.input_features = first.vocab_size, first.features
        self.positions_max = first.positions_max
        self.output_features = self.functions[0].output_features
        self.causal, self.pooled = self.functions[0].causal, self.functions[0].pooled
        self.kernel_set = _c.arenite_kernel_set_name(_c.arenite_model_target(of)).decode()
        self._tokenizer = None

    @property
    def tokenizer(self):
        """The file's Tokenizer. Raises Error if it has none."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self)
        return self._tokenizer

    def plan(self, **options):
        """Bytes of an arena, by part; total_bytes is exact. Options are those of session()."""
        plan = _ArenaPlan()
        _call("arenite_plan_arena", ctypes.byref(plan), ctypes.byref(self._model),
              ctypes.byref(_session_options(**options)))
        return {name: getattr(plan, name) for name, _ in _ArenaPlan._fields_}

    def session(self, **options):
        """A Session. Options, all of arenite_session_options: positions_max, tokens_max,
        sequences_max, outputs ("last" or "all"), kv_cache ("f32" or "int8"), others: a list of
        (positions_max, tokens_max) of the inputs after the first."""
        return Session(self, **options)

    def embed(self, texts):
        """Vectors of texts, or of pairs of texts: float32 [texts, output_features]. For models that
        return one row for each text. Texts longer than positions_max are cut."""
        if not self.pooled:
            raise Error("the model gives a vector for each token, not for each text: convert it "
                        "with --pooling")
        rows = self._rows_of_texts(texts)
        return numpy.concatenate(rows) if rows else numpy.empty((0, self.output_features), "f4")

    def classify(self, texts):
        """Shares of the classes, after a softmax: for each text, or pair of texts, float32
        [classes], or [tokens, classes] of a model that labels tokens. labels names the classes.
        Texts longer than positions_max are cut."""
        shares = []
        for rows in self._rows_of_texts(texts):
            powers = numpy.exp(rows - rows.max(axis=1, keepdims=True))
            powers /= powers.sum(axis=1, keepdims=True)
            shares.append(powers[0] if self.pooled else powers)
        return shares

    def _rows_of_texts(self, texts):
        """The output rows of each text, in their order; texts of like length share a call."""
        if isinstance(texts, str):
            raise TypeError("texts: expected a list of strings, found one string")
        encoded = [self.tokenizer.encode_pair(*text, tokens_max=self.positions_max)
                   if isinstance(text, tuple) else
                   (self.tokenizer.encode(text, tokens_max=self.positions_max), None)
                   for text in texts]
        ids = [text[0] for text in encoded]
        types = [numpy.zeros(len(text[0]), numpy.uint8) if text[1] is None else text[1]
                 for text in encoded]
        has_types = self.inputs[0].token_types > 1
        longest = max(map(len, ids), default=1)
        sequences_max = max(1, min(len(ids), GROUP_TOKENS // 4))
        tokens_max = min(max(longest, GROUP_TOKENS), longest * sequences_max)
        session = self.session(positions_max=longest, tokens_max=tokens_max,
                               sequences_max=sequences_max, outputs="all")
        groups, total = [[]], 0
        for i in sorted(range(len(ids)), key=lambda i: len(ids[i])):
            if total + len(ids[i]) > tokens_max or len(groups[-1]) == sequences_max:
                groups.append([])
                total = 0
            groups[-1].append(i)
            total += len(ids[i])
        rows = [None] * len(ids)
        for group in groups if ids else []:
            lengths = [len(ids[i]) for i in group]
            batch = {"types": numpy.concatenate([types[i] for i in group])} if has_types else {}
            output = session.run(numpy.concatenate([ids[i] for i in group]), lengths=lengths,
                                 back_to_back=True, **batch)
            # Rows of constants precede those of the tokens.
            before = 0 if self.pooled else (len(output) - sum(lengths)) // len(group)
            begin = 0
            for i in group:
                end = begin + (1 if self.pooled else before + len(ids[i]))
                rows[i], begin = output[begin + before:end], end
        return rows

    def generate(self, prompt, *, tokens=None, context=None, temperature=0.0, top_k=0, top_p=1.0,
                 min_p=0.0, repetition_penalty=1.0, repeat_last=64, seed=0, read_specials=False,
                 kv_cache=None):
        """Yields the continuation of a prompt in pieces of text, until the model ends it, `tokens`
        are written or the context is full. For decoders with one input. A temperature of 0 takes
        the most probable token. `read_specials` reads names of special tokens in the prompt."""
        if len(self.inputs) != 1 or not self.causal or self.output_features < self.vocab_size:
            raise Error("generate: expected a decoder with one input")
        ids = self.tokenizer.encode(prompt, add_end=False, read_specials=read_specials)
        if not len(ids):
            raise Error("generate: the prompt has no tokens")
        context = context or self.positions_max or 2048
        session = self.session(positions_max=context, tokens_max=min(context, CHUNK),
                               kv_cache=kv_cache)
        sampler = _ChosenTokens(self.output_features, temperature, top_k, top_p, min_p,
                                repetition_penalty, seed)
        history, written, decoder = list(map(int, ids)), 0, self.tokenizer.stream(ids)
        for begin in range(0, len(ids), CHUNK):
            logits = session.step(ids[begin:begin + CHUNK], copy=False)[-1]
        while tokens is None or written < tokens:
            token = sampler.choose(logits, history[-repeat_last:] if repeat_last else [])
            if self.tokenizer.is_end(token) or token == self.tokenizer.bos:
                break
            history.append(token)
            written += 1
            piece = decoder.next(token)
            if piece:
                yield piece
            if len(history) > context or written == tokens:
                break
            logits = session.step([token], copy=False)[-1]
        piece = decoder.finish()
        if piece:
            yield piece


class _ChosenTokens:
    """A sampler with its work space."""

    def __init__(self, logits, temperature, top_k, top_p, min_p, repetition_penalty, seed):
        self._sampler = _Sampler()
        options = _SamplerOptions(repetition_penalty, temperature, top_k, top_p, min_p, seed)
        _call("arenite_sampler_init", ctypes.byref(self._sampler), ctypes.byref(options))
        self._needed = _c.arenite_sampler_candidates_needed(ctypes.byref(self._sampler),
                                                            _SIZE(logits))
        self._scratch = (_Candidate * max(1, self._needed))()

    def choose(self, logits, recent):
        recent = numpy.asarray(recent, numpy.uint32)
        token = _U32()
        _call("arenite_sampler_sample", ctypes.byref(self._sampler), _POINTER(logits.ctypes.data),
              _SIZE(logits.size), _POINTER(recent.ctypes.data), _SIZE(recent.size), self._scratch,
              _SIZE(self._needed), ctypes.byref(token))
        return token.value


class Tokenizer:
    """The tokenizer of a model file."""

    def __init__(self, model):
        self._model = model
        self._tokenizer = _Tokenizer()
        _call("arenite_tokenizer_init", ctypes.byref(self._tokenizer), ctypes.byref(model._model))
        self._of = ctypes.byref(self._tokenizer)
        self.bos = _c.arenite_tokenizer_bos(self._of)
        self._expects_nfc = _c.arenite_tokenizer_expects_nfc(self._of)

    def encode(self, text, *, add_bos_and_end=True, add_end=True, read_specials=False,
               tokens_max=0):
        """Ids of a text, uint32. `add_end` False drops the end token, as for a prompt."""
        ids = self._encode("arenite_tokenizer_encode", (text,), tokens_max, add_bos_and_end,
                           read_specials)[0]
        while not add_end and ids.size and self.is_end(int(ids[-1])):
            ids = ids[:-1]
        return ids

    def encode_pair(self, text, second, *, add_bos_and_end=True, read_specials=False,
                    tokens_max=0):
        """Ids of a pair of texts, uint32, and the type of each, uint8."""
        return self._encode("arenite_tokenizer_encode_pair", (text, second), tokens_max,
                            add_bos_and_end, read_specials)

    def _encode(self, function, texts, tokens_max, add_bos_and_end, read_specials):
        given, least = [], 8
        for text in texts:
            if self._expects_nfc:
                text = unicodedata.normalize("NFC", text)
            data = text.encode("utf-8", "surrogatepass")
            given += [data, _SIZE(len(data))]
            least += 5 * len(data)
        options, count = _EncodeOptions(add_bos_and_end, read_specials, tokens_max), _SIZE()
        for size in (least, 16 * least):  # normalization may lengthen a text
            ids, types = numpy.empty(size, numpy.uint32), numpy.zeros(size, numpy.uint8)
            out = [_POINTER(ids.ctypes.data), _SIZE(size)]
            if len(texts) == 2:
                out += [_POINTER(types.ctypes.data), _SIZE(size)]
            try:
                _call(function, self._of, *given, ctypes.byref(options), *out,
                      ctypes.byref(count))
                return ids[:count.value].copy(), types[:count.value].copy()
            except Error as error:
                if size > least or error.field != "out":
                    raise

    def decode(self, ids, *, keep_specials=False):
        """The text of ids."""
        stream = TextStream(self, keep_specials=keep_specials)
        return "".join([stream.next(int(i)) for i in ids] + [stream.finish()])

    def stream(self, prompt=()):
        """A TextStream that continues the ids of a prompt."""
        stream = TextStream(self)
        for i in prompt:
            stream.next(int(i))
        return stream

    def is_end(self, token):
        return _c.arenite_tokenizer_is_end(self._of, _U32(token))


class TextStream:
    """Turns tokens into text as they come: whole characters only."""

    def __init__(self, tokenizer, *, keep_specials=False):
        self._tokenizer = tokenizer  # keeps the file
        self._stream = _TextStream()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        options = _DecodeOptions(keep_specials, False)
        _c.arenite_text_stream_init(ctypes.byref(self._stream), tokenizer._of,
                                    ctypes.byref(options))

    def next(self, token):
        """The text that this token completes."""
        parts = _c.arenite_text_stream_next(ctypes.byref(self._stream), _U32(token))
        return self._text.decode(_bytes_of(parts.head) + _bytes_of(parts.tail))

    def finish(self):
        """The bytes of an incomplete character, as U+FFFD."""
        parts = _c.arenite_text_stream_finish(ctypes.byref(self._stream))
        return self._text.decode(_bytes_of(parts.head) + _bytes_of(parts.tail), True)


class Session:
    """A model's state in an arena of its own. One thread at a time may call it."""

    def __init__(self, model, **options):
        self._model = model  # keeps the file
        self._options = _session_options(**options)
        plan = _ArenaPlan()
        _call("arenite_plan_arena", ctypes.byref(plan), ctypes.byref(model._model),
              ctypes.byref(self._options))
        self.arena_bytes = plan.total_bytes
        memory = numpy.zeros(plan.total_bytes + 64, numpy.uint8)
        begin = -memory.ctypes.data % 64
        self._arena = memory[begin:begin + plan.total_bytes]
        self._session = _POINTER()
        _call("arenite_session_create", ctypes.byref(self._session), ctypes.byref(model._model),
              ctypes.byref(self._options), _POINTER(self._arena.ctypes.data),
              _SIZE(plan.total_bytes))

    def run(self, *inputs, function=0, copy=True, **batch):
        """Clears all sequences and feeds them these tokens. Returns float32 [rows, features].

        Each input is an array of features, float32 [tokens, features] or [sequences, tokens,
        features], or of ids, integers [tokens] or [sequences, tokens]; contiguous float32 and
        uint32 are read where they lie. Images are [..., channels, height, width], and a series of
        them [..., channels, length]; their pixels are the tokens. lengths: tokens of each
        sequence that are no padding.
        visible: [sequences, tokens]. types: as ids. pairs: [sequences, tokens, tokens].
        back_to_back: sequences follow each other without padding, with `lengths`. For several
        inputs, each of these is a list with one for each input. function: an index or a name.
        copy=False returns a view of the arena, which the next call overwrites."""
        return self._feed("run", inputs, function, copy, batch)

    def step(self, *inputs, function=0, copy=True, **batch):
        """Appends tokens to the sequences; else as run."""
        return self._feed("step", inputs, function, copy, batch)

    def _feed(self, verb, inputs, function, copy, batch):
        if isinstance(function, str):
            names = [info.name.decode() for info in self._model.functions]
            if function not in names:
                raise Error(f"function: found {function!r}; the model has {', '.join(names)}")
            function = names.index(function)
        taken = [both for i, both in enumerate(zip(self._model.inputs, self._model.images))
                 if self._model.functions[function].inputs >> i & 1]
        if len(inputs) != len(taken):
            raise Error(f"found {len(inputs)} inputs; the function takes {len(taken)}")
        kept, given = [], (_Input * len(inputs))()
        for i, (array, (info, image)) in enumerate(zip(inputs, taken)):
            options = {key: value if len(inputs) == 1 else value[i]
                       for key, value in batch.items()}
            made = _batch(_pixels(array, image), info, kept, **options)
            if info.vocab_size:
                given[i].tokens = ctypes.pointer(made)
            else:
                given[i].batch = ctypes.pointer(made)
        output = _Output()
        _call(f"arenite_session_{verb}_function", self._session, _U32(function), given,
              _U32(len(inputs)), ctypes.byref(output))
        if output.rows == 0:
            return numpy.empty((0, output.features), numpy.float32)
        begin = output.data - self._arena.ctypes.data
        rows = self._arena[begin:begin + 4 * output.rows * output.features].view(numpy.float32)
        rows = rows.reshape(output.rows, output.features)
        return rows.copy() if copy else rows

    def reset(self):
        """Clears all sequences."""
        _c.arenite_session_reset(self._session)

    def rewind(self, positions, sequence=0, input=0):
        """Keeps the first `positions` tokens of a sequence."""
        _call("arenite_session_rewind_input", self._session, _U32(input), _U32(sequence),
              _U32(positions))

    def copy_sequence(self, source, target):
        """Copies a sequence over another one."""
        _call("arenite_session_copy_sequence", self._session, _U32(source), _U32(target))

    def positions(self, sequence=0, input=0):
        """How many tokens a sequence holds."""
        return _c.arenite_session_positions_of(self._session, _U32(sequence), _U32(input))


def _aligned(path_or_bytes):
    if isinstance(path_or_bytes, (str, os.PathLike)):
        with open(path_or_bytes, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise Error(f"{os.fspath(path_or_bytes)}: the file is empty")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return numpy.frombuffer(mapped, numpy.uint8)
    data = numpy.frombuffer(path_or_bytes, numpy.uint8)
    if data.ctypes.data % 64 == 0:
        return data
    memory = numpy.empty(data.size + 64, numpy.uint8)
    begin = -memory.ctypes.data % 64
    memory[begin:begin + data.size] = data
    return memory[begin:begin + data.size]


def _session_options(positions_max=0, tokens_max=0, sequences_max=1, outputs="last",
                     kv_cache=None, others=()):
    if outputs not in OUTPUTS:
        raise Error(f"outputs: found {outputs!r}, expected one of {', '.join(OUTPUTS)}")
    if kv_cache not in KV_TYPES:
        raise Error(f"kv_cache: found {kv_cache!r}, expected None, 'f32' or 'int8'")
    options = _SessionOptions(positions_max, tokens_max, sequences_max, OUTPUTS[outputs],
                              KV_TYPES[kv_cache], _ParallelFor(1))
    for i, (positions, tokens) in enumerate(others):
        options.others[i] = _InputSizes(positions, tokens)
    return options


def _array(value, kept, dtype, what, shape=None):
    """A C pointer to a contiguous array of the type, which `kept` keeps alive, and the array."""
    array = numpy.asarray(value)
    if dtype == numpy.float32:
        if array.dtype.kind not in "fiu":
            raise Error(f"{what}: found {array.dtype}, expected float32")
    elif array.dtype.kind not in "iub":
        raise Error(f"{what}: found {array.dtype}, expected integers")
    elif array.size and (array.min() < 0 or array.max() > numpy.iinfo(dtype).max):
        raise Error(f"{what}: found {int(array.min())} to {int(array.max())}, expected 0 to "
                    f"{numpy.iinfo(dtype).max}")
    if shape is not None and array.shape != shape:
        raise Error(f"{what}: found shape {list(array.shape)}, expected {list(shape)}")
    array = numpy.ascontiguousarray(array, dtype)
    kept.append(array)
    return _POINTER(array.ctypes.data), array


def _pixels(array, image):
    """Images as tokens: [sequences, height * width, channels]."""
    shape = (image.channels, image.height, image.width)
    if image.channels and image.height == 1:
        shape = (image.channels, image.width)
    array = numpy.asarray(array)
    if not image.channels or array.shape[-len(shape):] != shape:
        return array
    array = numpy.moveaxis(array, -len(shape), -1)
    return array.reshape(*array.shape[:-len(shape)], -1, image.channels)


def _batch(array, info, kept, lengths=None, visible=None, types=None, pairs=None,
           back_to_back=False):
    is_tokens = info.vocab_size != 0
    what = info.name.decode() or "input"
    pointer, array = _array(array, kept, numpy.uint32 if is_tokens else numpy.float32, what)
    axes = array.ndim if is_tokens else array.ndim - 1
    if axes not in (1, 2) or (back_to_back and axes != 1):
        row = "" if is_tokens else f", {info.features}"
        batched = "" if back_to_back else f" or [sequences, tokens{row}]"
        expected = f"[tokens{row}]{batched}"
        raise Error(f"{what}: found shape {list(array.shape)}, expected {expected}")
    if not is_tokens and array.shape[-1] != info.features:
        raise Error(f"{what}: found {array.shape[-1]} features a token, expected {info.features}")
    sequences, tokens = array.shape[:2] if axes == 2 else (1, array.shape[0])
    if back_to_back:
        if lengths is None:
            raise Error("back_to_back: lengths are missing")
        sequences = len(lengths)
    made = (_TokenBatch if is_tokens else _Batch)()
    setattr(made, "ids" if is_tokens else "features", pointer)
    made.size, made.sequences = array.size, sequences
    made.tokens, made.back_to_back = 0 if back_to_back else tokens, back_to_back
    if lengths is not None:
        made.lengths = _array(lengths, kept, numpy.uint32, "lengths", (sequences,))[0]
    of_tokens = array.shape if is_tokens else array.shape[:-1]
    if visible is not None:
        made.visible = _array(visible, kept, numpy.uint8, "visible", of_tokens)[0]
    if types is not None:
        if not is_tokens:
            raise Error("types: the input takes features, not tokens")
        made.types = _array(types, kept, numpy.uint8, "types", of_tokens)[0]
    if pairs is not None:
        shape = (sum(n * n for n in lengths),) if back_to_back else (*of_tokens, tokens)
        made.pairs = _array(pairs, kept, numpy.uint8, "pairs", shape)[0]
    return made
