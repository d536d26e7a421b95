#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folders of from_hub: what tools/python/arenite_export.py writes for small models with
random weights: of a family that `arenite convert` does not read itself, of two inputs, of sound.

Usage: make_from_hub.py [NAME...]     (PyTorch 2.14, transformers 5, tokenizers)
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import tokenizers
import torch
import transformers

from save_cases import save_program

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parents[2] / "tools/python/arenite_export.py"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "pump", "is", "loud", "quiet", "##er", "."]
PIECES = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581the", -1.0), ("\u2581pump", -2.0),
          ("\u2581is", -2.0), ("\u2581loud", -2.5), ("er", -3.0)]


def classifier():
    model = transformers.AlbertForSequenceClassification(transformers.AlbertConfig(
        vocab_size=len(WORDS), embedding_size=6, hidden_size=8, intermediate_size=12,
        num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=20,
        id2label={0: "calm", 1: "worn", 2: "broken"},
        label2id={"calm": 0, "worn": 1, "broken": 2}))
    words = tokenizers.Tokenizer(tokenizers.models.WordPiece(
        {word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.normalizer = tokenizers.normalizers.BertNormalizer()
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    words.decoder = tokenizers.decoders.WordPiece()
    words.add_special_tokens(WORDS[:4])
    return model, words


def translator():
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=len(PIECES), d_model=8, d_kv=4, d_ff=12, num_layers=1, num_decoder_layers=1,
        num_heads=2, relative_attention_num_buckets=4, relative_attention_max_distance=8,
        decoder_start_token_id=0))
    pieces = tokenizers.Tokenizer(tokenizers.models.Unigram(PIECES, unk_id=2))
    pieces.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    pieces.decoder = tokenizers.decoders.Metaspace()
    pieces.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)])
    pieces.add_special_tokens(["<pad>", "</s>"])
    return model, pieces


def speech():
    """A wav2vec2 with its seven convolutions of samples, which writes letters by CTC."""
    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDL'"]
    model = transformers.Wav2Vec2ForCTC(transformers.Wav2Vec2Config(
        vocab_size=len(letters), hidden_size=8, intermediate_size=12, num_hidden_layers=1,
        num_attention_heads=2, conv_dim=[4] * 7, num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "vocab.json")
        file.write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
        tokenizer = transformers.Wav2Vec2CTCTokenizer(str(file))
    return model, transformers.Wav2Vec2Processor(
        transformers.Wav2Vec2FeatureExtractor(return_attention_mask=False), tokenizer)


MODELS = {"classifier": classifier, "translator": translator, "speech": speech}


def save_heard(model, processor, path):
    """What transformers hears in two sounds, whose samples the test makes, too: the text without
    special tokens."""
    heard = []
    for seconds in (0.7, 2.6):
        i = np.arange(int(seconds * 16000), dtype=np.int64)
        samples = ((i * (i // 16 + 300)).astype(np.int16) >> 2) / 32768
        given = processor(samples, sampling_rate=16000, return_tensors="pt").input_values.double()
        with torch.no_grad():
            frames = model.double()(given).logits[0].argmax(-1)
        heard.append({"seconds": seconds, "text": re.sub(
            "<[^>]*>", "", processor.tokenizer.decode(frames))})
    path.write_text(json.dumps(heard, indent=1) + "\n")


def save_beams(model, path):
    """What beam search of transformers writes: cases of ids, beams, length penalty and result."""
    cases = []
    for ids in ([3, 4, 1], [6, 5, 4, 3, 1], [7, 7, 3, 5, 6, 4, 1]):
        for beams, penalty in ((2, 1.0), (3, 2.0), (4, 1.0), (4, 0.0), (8, 0.5)):
            written = model.generate(torch.tensor([ids]), num_beams=beams, max_new_tokens=9,
                                     length_penalty=penalty, do_sample=False)[0].tolist()
            cases.append({"ids": ids, "beams": beams, "penalty": penalty, "written": written})
    with open(path, "w", encoding="utf-8") as file:
        file.write("[" + ",\n ".join(json.dumps(case) for case in cases) + "]\n")


def main(names):
    for name in names or MODELS:
        torch.manual_seed(len(name))
        model, tokenizer = MODELS[name]()
        with torch.no_grad():
            for parameter in model.parameters():
                steps = torch.randint(-8, 9, parameter.shape) / 16
                is_gain = parameter.ndim == 1 and bool((parameter == 1).all())
                parameter.copy_(1 + steps / 4 if is_gain else steps)
        if name == "translator":
            save_beams(model.eval(), HERE / "from_hub" / "beams.json")
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            if name == "speech":
                tokenizer.save_pretrained(folder)
            else:
                tokenizer.save(os.path.join(folder, "tokenizer.json"))
            shutil.rmtree(HERE / "from_hub" / name, ignore_errors=True)
            subprocess.run([sys.executable, SCRIPT, folder, "-o", HERE / "from_hub" / name],
                           check=True)
        if name == "speech":
            save_heard(model.eval(), tokenizer, HERE / "from_hub" / "heard.json")
        program = HERE / "from_hub" / name / "model.pt2"
        save_program(torch.export.load(program), str(program))


if __name__ == "__main__":
    main(sys.argv[1:])
