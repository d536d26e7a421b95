#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a model of the transformers library to a folder that `arenite convert` takes.

  python3 arenite_export.py MODEL -o DIR [--task TASK] [--context N]
  arenite convert DIR -o model.arn

MODEL is a folder or a name on the hub. DIR gets model.pt2 (torch.export), the files of the
tokenizer and the configs, samples of inputs with the outputs that the model gives in float64, and
facts.json, which names them all. Needs torch and transformers, and nothing else.
"""
import argparse
import dataclasses
import inspect
import json
import os
import pathlib
import random
import re
import shutil
import sys
import types
import warnings

os.environ.setdefault("USE_HUB_KERNELS", "0")  # kernels of the hub cannot be exported

import numpy  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.utils.hub import cached_file  # noqa: E402

FORMAT = 1       # of facts.json
CONTEXT = 512    # tokens at most, if nothing else is said
SAMPLES = 32000  # of sound: 2 s at 16 kHz
SAMPLES_OF_SPEECH = 160000  # in a window of speech that is written down
EXAMPLE = 16     # tokens of the example that is exported
WRONG = 1e-3     # a larger share of the largest output is another model

TASKS = {
    "audio": "AudioClassification", "choice": "MultipleChoice", "ctc": "CTC",
    "classify": "SequenceClassification", "generate": "CausalLM", "image": "ImageClassification",
    "masked": "MaskedLM", "question": "QuestionAnswering", "segment": "SemanticSegmentation",
    "speech": "SpeechSeq2Seq", "tokens": "TokenClassification", "translate": "Seq2SeqLM",
    "features": "", "image-part": "", "text-part": ""}  # parts of a model of images and texts
CONFIGS = ["config.json", "generation_config.json", "preprocessor_config.json"]
TOKENIZERS = ["tokenizer.json", "vocab.txt", "tokenizer.model", "vocab.json"]
BESIDE_TOKENIZERS = ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                     "merges.txt", "spiece.model", "sentencepiece.bpe.model"]
# What torch says, and what to write instead.
ADVICE = [
    (r"No module named|requires the .* library|ImportError", "install the package that is named"),
    (r"data-dependent|unbacked|indexed tensor|nonzero|\bu\d+\b|control flow|Dynamic slicing",
     "its code chooses by the values of a tensor (an `if`, a boolean mask as an index, `nonzero`, "
     "`.item()`): compute all rows and select with torch.where, or export the part before it"),
    (r"custom|triton|flash|Unsupported operator|grouped_mm",
     "it calls a kernel of its own: use the plain PyTorch code of the same layer"),
    (r"", "export it by hand with torch.export.export, and convert the program: see "
     "tools/convert/README.md, A PyTorch model of your own"),
]
POOLINGS = {
    "cls": lambda x: x[:, 0], "max": lambda x: x.amax(1), "mean": lambda x: x.mean(1),
    "lasttoken": lambda x: x[:, -1],
    "mean_sqrt_len_tokens": lambda x: x.sum(1) * x.shape[1] ** -0.5}


class Problem(Exception):
    """Ends the program with its text."""


@dataclasses.dataclass
class Source:
    """A model as it was loaded, and how one output is computed with it."""
    model: torch.nn.Module
    where: str
    call: object
    reference: object = None  # of the samples, if the model's own code cannot be exported
    folder: str = ""          # of the tokenizer, in `where`
    ends_with: int = None     # the token that ends each text, where the model looks for it
    context: int = None       # tokens at most, as its own files say
    options: dict = dataclasses.field(default_factory=dict)
    notes: list = dataclasses.field(default_factory=list)


# ---- what is computed ----

def first(model, **inputs):
    return model(**inputs, return_dict=False)[0]


def answers(model, **inputs):
    return torch.stack(model(**inputs, return_dict=False)[:2], -1)


def choices(model, **inputs):
    return first(model, **{name: value[:, None] for name, value in inputs.items()})


def last_token(model, **inputs):
    # In the class itself the token depends on where padding begins; here all tokens count.
    return model.score(model.base_model(**inputs, return_dict=False)[0][:, -1])


def end_of_text(model, input_ids):
    # The class of an encoder-decoder looks for the token that ends the text; here it is the last.
    # Its decoder reads the text one token later.
    config, embed = model.config, model.get_decoder().embed_tokens
    starts = {"mbart": config.eos_token_id, "plbart": config.eos_token_id}
    begin = embed(torch.tensor([[starts.get(config.model_type, config.decoder_start_token_id)]]))
    pad = torch.nn.functional.pad
    rows = pad(embed(input_ids)[:, :-1], (0, 0, 1, 0)) + pad(
        begin, (0, 0, 0, input_ids.shape[1] - 1))
    hidden = model.base_model(input_ids=input_ids, decoder_inputs_embeds=rows,
                              return_dict=False)[0]
    return model.classification_head(hidden[:, -1])


def with_lengths(model, input_ids, **inputs):
    # XLM derives from the ids which of them are padding, unless it is told: here none is.
    lengths = input_ids.new_full((1,), input_ids.shape[1])
    return first(model, input_ids=input_ids, lengths=lengths,
                 attention_mask=torch.ones_like(input_ids), **inputs)


def masked_attention(self, hidden_states, is_index_global_attn, **_):
    """What Longformer's attention computes in chunks, with a mask of its window."""
    shape = (*hidden_states.shape[:2], self.num_heads, self.head_dim)

    def attend(query, key, value, hidden):
        q, k, v = (part(hidden_states).view(shape).transpose(1, 2) for part in (query, key, value))
        scores = (q @ k.mT * self.head_dim ** -0.5).masked_fill(hidden, float("-inf"))
        return scores.softmax(-1) @ v

    places = torch.arange(shape[1])
    far = (places[None] - places[:, None]).abs() > self.one_sided_attn_window_size
    seen = is_index_global_attn[:, None]
    local = attend(self.query, self.key, self.value, (far & ~seen)[:, None])
    of_all = attend(self.query_global, self.key_global, self.value_global, far & False)
    made = local + (of_all - local) * seen[..., None]
    return (made.transpose(1, 2).flatten(2),)


def without_chunks(model, **inputs):
    changed = {"forward": [part for part in model.modules()
                           if hasattr(part, "one_sided_attn_window_size")],
               "_pad_to_window_size": [part for part in model.modules()
                                       if hasattr(part, "_pad_to_window_size")]}
    for part in changed["forward"]:
        part.forward = types.MethodType(masked_attention, part)
    for part in changed["_pad_to_window_size"]:
        part._pad_to_window_size = lambda pad_token_id, **given: (0, *given.values())
    code = sys.modules[type(model).__module__]
    masks = code.create_bidirectional_mask
    code.create_bidirectional_mask = (
        lambda attention_mask, **_: (attention_mask * 0.0)[:, None, None])
    try:
        return first(model, **inputs)
    finally:
        code.create_bidirectional_mask = masks
        for name, parts in changed.items():
            for part in parts:
                delattr(part, name)


def part(name):
    def features(model, **inputs):
        output = getattr(model, f"get_{name}_features")(**inputs)
        return output if torch.is_tensor(output) else output.pooler_output
    return features


def clip_text(model, **inputs):
    # The class looks for the token that ends the text; here it is the last one.
    return model.text_projection(model.text_model(**inputs, return_dict=False)[0][:, -1])


# ---- loading ----

def file_of(where, name):
    """The path of a file of the model, in its folder or from the hub, or None."""
    if os.path.isdir(where):
        path = pathlib.Path(where, name)
        return path if path.is_file() else None
    try:
        path = cached_file(where, name, _raise_exceptions_for_missing_entries=False)
    except OSError:
        return None
    return pathlib.Path(path) if path else None


def json_of(where, name):
    path = file_of(where, name)
    return json.loads(path.read_text(encoding="utf-8")) if path else None


def preprocessor_of(where):
    """What prepares sounds or images; transformers 5 saves it within processor_config.json."""
    whole = json_of(where, "processor_config.json") or {}
    return (json_of(where, "preprocessor_config.json") or whole.get("feature_extractor") or
            whole.get("image_processor") or {})


def class_of(config, task):
    names = [] if task else getattr(config, "architectures", None) or []
    autos = [auto for auto, place in (getattr(config, "auto_map", None) or {}).items()
             if any(str(place).endswith("." + name) for name in names)]
    known = [name for name in names + autos if hasattr(transformers, name)]
    task_class = "AutoModelFor" + TASKS[task] if TASKS.get(task) else "AutoModel"
    return getattr(transformers, (known + [task_class])[0])


def load(where, task, trust, subfolder=""):
    place = {"subfolder": subfolder, "trust_remote_code": trust}
    try:
        config = transformers.AutoConfig.from_pretrained(where, **place)
        model = class_of(config, task).from_pretrained(
            where, attn_implementation="eager", dtype=torch.float32, **place)
    except Exception as error:
        raise Problem(f"{where}: cannot be loaded: {error}\n  expected a folder as "
                      "save_pretrained writes it, or a name on the hub; --trust-remote-code runs "
                      "its own Python code") from error
    for part in model.modules():
        if getattr(part, "config", None) is not None:
            part.config.use_cache = False
    return model.float().eval()


def pooling_of(where, path):
    config = json_of(where, f"{path}/config.json") or {}
    modes = config.get("pooling_mode") or [
        name for name in [*POOLINGS, "weightedmean"] if any(
            config.get(f"pooling_mode_{name}{end}") for end in ("", "_token", "_tokens"))]
    modes = [modes] if isinstance(modes, str) else modes or ["mean"]
    if not set(modes) <= set(POOLINGS):
        raise Problem(f"{where}: {path} pools by {', '.join(modes)}: expected some of "
                      f"{', '.join(POOLINGS)}; --task features exports the model without it")
    return modes


def module_after_pooling(where, kind, path):
    """A module of sentence-transformers, of plain PyTorch."""
    config = json_of(where, f"{path}/config.json") or {}
    if kind == "Normalize":
        return lambda x: torch.nn.functional.normalize(x, dim=-1)
    if kind not in ("Dense", "LayerNorm") or config.get("use_residual"):
        raise Problem(f"{where}: modules.json has {kind}, {config}: expected Dense, LayerNorm, "
                      "Normalize or Dropout after the pooling; --task features leaves them out")
    file = file_of(where, f"{path}/model.safetensors")
    weights = (safetensors.torch.load_file(file) if file else
               torch.load(file_of(where, f"{path}/pytorch_model.bin"), weights_only=True))
    layer = (torch.nn.LayerNorm(config["dimension"]) if kind == "LayerNorm" else torch.nn.Linear(
        config["in_features"], config["out_features"], config.get("bias", True)))
    layer.load_state_dict({name.split(".")[-1]: value.float() for name, value in weights.items()})
    if kind == "LayerNorm":
        return layer
    name = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    return torch.nn.Sequential(layer, getattr(torch.nn, name.rsplit(".", 1)[-1])())


def load_sentences(where, trust, modules):
    """A model of sentence-transformers: pooling and what follows it, as modules.json says."""
    kinds = [(module["type"].rsplit(".", 1)[-1], module["path"]) for module in modules]
    if [kind for kind, _ in kinds[:2]] != ["Transformer", "Pooling"]:
        raise Problem(f"{where}: modules.json has {', '.join(kind for kind, _ in kinds)}: expected "
                      "Transformer and Pooling first; --task features exports the transformer")
    folder = kinds[0][1]
    model = load(where, "features", trust, folder)
    modes = pooling_of(where, kinds[1][1])
    after = [module_after_pooling(where, kind, path) for kind, path in kinds[2:]
             if kind != "Dropout"]
    model.after_pooling = torch.nn.ModuleList(
        part for part in after if isinstance(part, torch.nn.Module))  # exported with the model

    def embed(model, **inputs):
        hidden = first(model, **inputs)
        x = torch.cat([POOLINGS[mode](hidden) for mode in modes], -1)
        for part in after:
            x = part(x)
        return x

    source = Source(model, where, embed, folder=folder, options={"pooling": modes})
    settings = json_of(where, "config_sentence_transformers.json") or {}
    if any((settings.get("prompts") or {}).values()):
        source.notes.append("you put one of its prompts before each text: " + json.dumps(
            {name: settings.get(name) for name in ("prompts", "default_prompt_name")}))
    text = json_of(where, os.path.join(folder, "sentence_bert_config.json")) or {}
    source.context = text.get("max_seq_length")
    if text.get("do_lower_case"):
        source.options["lower_case"] = True
    return source


def load_source(where, task, trust):
    modules = None if task else json_of(where, "modules.json")
    if modules:
        return load_sentences(where, trust, modules)
    source = Source(load(where, task, trust), where, first)
    model, name = source.model, type(source.model).__name__
    config = getattr(model.config, "text_config", model.config)
    ends_with = getattr(config, "eos_token_id", None)
    is_clip = name.startswith("CLIP")
    if is_clip and ends_with == 2:  # in old configs: it is the last id of the vocabulary
        ends_with = config.vocab_size - 1
    if task in ("text-part", "image-part"):
        source.call = part(task.split("-")[0])
        if is_clip and task == "text-part":
            source.call, source.reference, source.ends_with = clip_text, source.call, ends_with
    elif hasattr(model, "get_text_features") and hasattr(model, "get_image_features"):
        raise Problem(f"{where}: {name} reads images and texts: expected --task image-part or "
                      "--task text-part, one for each file of Arenite")
    elif is_clip and name.endswith("TextModelWithProjection"):
        source.call, source.reference, source.ends_with = clip_text, first, ends_with
    elif name.endswith("ForQuestionAnswering"):
        source.call = answers
    elif name.endswith("ForSequenceClassification") and config.is_encoder_decoder:
        source.call, source.reference, source.ends_with = end_of_text, first, ends_with
    elif any(hasattr(part, "one_sided_attn_window_size") for part in model.modules()):
        source.call, source.reference = without_chunks, first
    elif "lengths" in inspect.signature(model.forward).parameters:
        source.call, source.reference = with_lengths, first
    elif name.endswith("ForMultipleChoice"):
        source.call = choices
    elif name.endswith("ForSequenceClassification") and hasattr(model, "score"):
        source.call, source.reference = last_token, first
    return source


# ---- inputs ----

def nested(config, names, fallback=None):
    """The first of these fields that the config or one of its parts has."""
    parts = [config] + [getattr(config, f"{part}_config", None) for part in (
        "text", "vision", "backbone", "audio")]
    return next((getattr(part, name) for name in names for part in parts
                 if getattr(part, name, None) is not None), fallback)


def is_ctc(source):
    return type(source.model).__name__.endswith("ForCTC")


def image_shape(config, settings):
    size = nested(config, ["image_size"]) or settings.get("crop_size") or settings.get("size", 224)
    if isinstance(size, dict):
        size = [size.get(side, size.get("shortest_edge", 224)) for side in ("height", "width")]
    sides = size if isinstance(size, (list, tuple)) else (size, size)
    frames = [config.num_frames] if hasattr(config, "num_frames") else []  # of a video
    return [1, *frames, nested(config, ["num_channels"], 3), *sides]


class Inputs:
    """The inputs of a model by name, at any lengths."""

    def __init__(self, source, task, context):
        self.source = source
        config = self.config = source.model.config
        self.main = main = {"text-part": "input_ids", "image-part": "pixel_values"}.get(
            task, source.model.main_input_name)
        names = inspect.signature(source.model.forward).parameters
        positions = nested(config, ["max_position_embeddings", "n_positions", "max_seq_len",
                                    "max_sequence_length", "seq_length", "n_ctx",
                                    "max_target_positions"])
        positions = positions if isinstance(positions, int) and positions > 1 else 1 << 24
        self.context = min(positions, context or source.context or CONTEXT)
        self.shapes, self.most = {}, {}  # fixed shapes; the longest sequences
        settings = preprocessor_of(source.where)
        if main == "pixel_values":
            self.shapes[main] = image_shape(config, settings)
            if settings:
                source.notes.append("pixels are prepared by you: " + json.dumps(
                    {name: settings.get(name) for name in ("rescale_factor", "image_mean",
                                                           "image_std", "size")}))
        elif main == "input_features" and hasattr(config, "num_mel_bins"):
            self.shapes[main] = [1, config.num_mel_bins, 2 * config.max_source_positions]
        elif main == "input_values" and hasattr(config, "num_mel_bins"):
            self.shapes[main] = [1, config.max_length, config.num_mel_bins]
        elif main == "past_values" and hasattr(config, "num_input_channels"):
            self.shapes[main] = [1, config.context_length, config.num_input_channels]
        elif main == "input_values":
            self.most[main] = context or (SAMPLES_OF_SPEECH if is_ctc(source) else SAMPLES)
            if settings.get("feature_extractor_type") == "Wav2Vec2FeatureExtractor":
                source.options["sound"] = "preprocessor_config.json"
        else:
            self.most[main] = self.context
            has_types = "token_type_ids" in names and nested(config, ["type_vocab_size"], 0) > 1
            if has_types and config.model_type != "mobilebert":  # it reads three ids as one row
                self.most["token_type_ids"] = self.context
        if main in self.shapes and main != "pixel_values" and settings:
            source.options["sound"] = "preprocessor_config.json"
        has_decoder = config.is_encoder_decoder and "decoder_input_ids" in names
        if has_decoder and source.call is not end_of_text:
            self.most["decoder_input_ids"] = self.context
        special = {value for part_of in (config, getattr(config, "text_config", config))
                   for name, value in part_of.to_dict().items() if name.endswith("token_id")}
        special.add(source.ends_with)
        rows = min(nested(config, ["vocab_size"], 2), 30000)
        self.tokens = [token for token in range(rows) if token not in special]
        self.unit = 6400 if main == "input_values" else EXAMPLE  # of the example
        with torch.no_grad():
            self.shrink_context()

    def make(self, length):
        """Inputs of `length` tokens; the decoder's are fewer."""
        made, noise, choice = {}, numpy.random.default_rng(length), random.Random(length)
        for name in [*self.shapes, *self.most]:
            tokens = min(self.most.get(name, 0), length)
            shape = self.shapes.get(name, [1, tokens])
            if name == "decoder_input_ids":
                tokens = max(3, tokens * EXAMPLE // self.unit - 3)
            if name == "input_features" and name in self.most:
                shape = [1, tokens, nested(self.config, [
                    "input_feat_per_channel", "feature_projection_input_dim", "num_mel_bins"])]
            if name == "token_type_ids":
                made[name] = torch.tensor([[int(2 * i >= tokens) for i in range(tokens)]])
            elif name.endswith("ids"):
                ids = choice.choices(self.tokens, k=tokens)
                if self.source.ends_with is not None:
                    ids[-1] = self.source.ends_with
                made[name] = torch.tensor([ids])
            else:
                made[name] = torch.tensor(noise.standard_normal(shape, numpy.float32))
        return made

    def shrink_context(self):
        """Positions may begin after others, as RoBERTa's do: the longest text is tried."""
        for _ in range(8 if self.main == "input_ids" else 0):
            try:
                return self.source.call(self.source.model, **self.make(self.context))
            except Exception:  # pylint: disable=broad-except
                self.context -= 1
                self.most = {name: self.context for name in self.most}


# ---- export ----

class Program(torch.nn.Module):
    """What is exported. The arguments of `forward` are the inputs by name."""

    def __init__(self, source, names):
        super().__init__()
        self.model, self.call, space = source.model, source.call, {}
        exec(f"def forward(self, {', '.join(names)}):\n    return self.call(self.model, "
             f"{', '.join(f'{name}={name}' for name in names)})", space)
        type(self).forward = space["forward"]


def export(source, inputs, dynamic, strict):
    """A program whose lengths are open if `dynamic`, and its example."""
    example = inputs.make(inputs.unit)
    sizes = {name: {1: torch.export.Dim.AUTO(max=inputs.most[name])}
             if dynamic and name in inputs.most else None for name in example}
    program = torch.export.export(Program(source, example).eval(), (), kwargs=example,
                                  strict=strict, dynamic_shapes=sizes)
    for node in program.graph.nodes:
        if dynamic and node.op == "placeholder" and node.name in inputs.most:
            if all(isinstance(size, int) for size in node.meta["val"].shape):
                raise Problem(f"torch fixed the length of {node.name} to the example's")
    return program, example


def outputs_in_float64(source, given):
    call = source.reference or source.call
    with torch.no_grad():
        wide = {name: value.double() if value.is_floating_point() else value
                for name, value in given.items()}
        try:
            return call(source.model.double(), **wide).double().numpy()
        except RuntimeError:  # parts of its code are of float32 whatever the weights are
            return call(source.model.float(), **given).double().numpy()
        finally:
            source.model.float()


def samples_of(source, inputs, program, example, dynamic):
    """Inputs and outputs at lengths of the program: the example's and, if open, two others."""
    samples, run = [], program.module()
    shares = (1, 1.5, 2, 0.75, 0.5) if dynamic else (1,)
    for length in dict.fromkeys(min(int(inputs.unit * share), max(inputs.most.values(), default=1))
                                for share in shares):
        given = inputs.make(length) if samples else example
        try:
            with torch.no_grad():
                found = run(**given).double().numpy()
        except Exception:  # pylint: disable=broad-except
            if not samples:
                raise
            continue  # a length that the program does not take
        expected = outputs_in_float64(source, given)
        if expected.shape != found.shape:
            raise Problem(f"the program gives {found.shape}, the model {expected.shape}")
        error, largest = numpy.abs(found - expected).max(), numpy.abs(expected).max()
        if not error <= WRONG * largest:
            raise Problem(f"the program differs from the model by {error:.1e} of {largest:.1e}")
        samples.append((given, expected))
        if len(samples) == 3:
            break
    if dynamic and len(samples) < 2:
        raise Problem("the program takes no other length than the example's")
    return samples


def export_any(source, inputs, file):
    """Saves the first program that torch makes and that computes what the model does."""
    errors = []
    for dynamic in (True, False) if inputs.most else (False,):
        for strict in (False, True):
            try:
                program, example = export(source, inputs, dynamic, strict)
                samples = samples_of(source, inputs, program, example, dynamic)
                torch.export.save(program, file)
            except Exception as error:  # pylint: disable=broad-except
                errors.append(error)
                continue
            if inputs.most and not dynamic:
                source.notes.append(f"it takes the example's lengths alone: {errors[0]}"[:300])
            return samples
    text = "\n".join(f"{type(error).__name__}: {error}" for error in errors)
    advice = next(advice for sign, advice in ADVICE if re.search(sign, text))
    raise Problem(f"{source.where}: torch cannot export it: {text.splitlines()[0][:300]}\n"
                  f"  {advice}")


# ---- the folder ----

def write_ctc_tokenizer(tokenizer, file):
    """A tokenizer.json of characters, which wav2vec2's tokenizer does not write itself."""
    word = tokenizer.word_delimiter_token
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": word}
    normalizers = [{"type": "Lowercase"}] * bool(tokenizer.do_lower_case) + [replace]
    file.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None,
        "added_tokens": [
            {"id": tokenizer.convert_tokens_to_ids(name), "content": name, "single_word": False,
             "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for name in tokenizer.all_special_tokens if name != word],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"},
                          "behavior": "Isolated", "invert": False},
        "decoder": {"type": "CTC", "pad_token": tokenizer.pad_token, "cleanup": True,
                    "word_delimiter_token": word},
        "model": {"type": "WordLevel", "vocab": tokenizer.get_vocab(),
                  "unk_token": tokenizer.unk_token}}) + "\n", encoding="utf-8")


def carry_files(source, trust, folder):
    for name in CONFIGS + TOKENIZERS + BESIDE_TOKENIZERS:
        path = file_of(source.where, os.path.join(source.folder, name))
        if path:
            shutil.copyfile(path, folder / name)
    if not (folder / "config.json").exists():
        source.model.config.save_pretrained(folder)
    preprocessor = preprocessor_of(source.where)
    if preprocessor and not (folder / "preprocessor_config.json").exists():
        (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor, indent=1) + "\n")
    has_any = any((folder / name).exists() for name in TOKENIZERS + BESIDE_TOKENIZERS)
    if has_any and not (folder / "tokenizer.json").exists():
        try:  # writes a tokenizer.json of what the model has
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                source.where, subfolder=source.folder, trust_remote_code=trust)
            tokenizer.save_pretrained(folder)
            if type(tokenizer).__name__ == "Wav2Vec2CTCTokenizer":
                write_ctc_tokenizer(tokenizer, folder / "tokenizer.json")
        except Exception as error:  # pylint: disable=broad-except
            source.notes.append(f"its tokenizer is carried as it is: {error}"[:300])


def write_folder(source, inputs, samples, folder, trust):
    carry_files(source, trust, folder)
    listed = []
    for number, (given, expected) in enumerate(samples):
        names = {name: f"sample{number}_{name}.npy" for name in given}
        for name, value in given.items():
            numpy.save(folder / names[name], value.numpy())
        numpy.save(folder / f"sample{number}_outputs.npy", numpy.ascontiguousarray(expected))
        listed.append({"inputs": names, "outputs": f"sample{number}_outputs.npy"})
    card = file_of(source.where, "README.md")
    license_of = re.compile(r"\A---\n(?:.*\n)*?license:[ \t]*(\S+)")
    found = card and license_of.search(card.read_text(encoding="utf-8", errors="replace"))
    has_text = is_ctc(source) or any(name.endswith("input_ids") for name in inputs.most)
    table = (source.model.get_input_embeddings() if inputs.main == "input_ids" and
             not hasattr(source.model.config, "text_config") else None)
    facts = {
        "format": FORMAT, "family": source.model.config.model_type,
        "class": type(source.model).__name__, "license": found[1] if found else None,
        "transformers": transformers.__version__, "torch": torch.__version__,
        "programs": ["model.pt2"], "vocab_size": getattr(table, "num_embeddings", 0),
        "tokenizer": has_text and any((folder / name).exists() for name in TOKENIZERS),
        "options": source.options, "samples": listed, "notes": source.notes}
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("model", help="a folder, or a name on the hub")
    add("-o", "--output", required=True, type=pathlib.Path, help="the folder to write")
    add("--task", choices=sorted(TASKS), help="by default what its config says")
    add("--context", type=int, help=f"longest sequence: {CONTEXT} tokens, {SAMPLES} samples, or "
        "what the model takes, if not given")
    add("--trust-remote-code", action="store_true", help="run Python code of the model's folder")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    try:
        if arguments.output.exists() and any(arguments.output.iterdir()):
            raise Problem(f"{arguments.output} is not empty: expected a new folder, in which "
                          "nothing is left of another model")
        source = load_source(arguments.model, arguments.task, arguments.trust_remote_code)
        inputs = Inputs(source, arguments.task, arguments.context)
        arguments.output.mkdir(parents=True, exist_ok=True)
        samples = export_any(source, inputs, arguments.output / "model.pt2")
        write_folder(source, inputs, samples, arguments.output, arguments.trust_remote_code)
    except Problem as problem:
        sys.exit(f"arenite_export: {problem}")
    for note in source.notes:
        print(f"note: {note}")
    print(f"next: arenite convert {arguments.output} -o model.arn")


if __name__ == "__main__":
    main()
