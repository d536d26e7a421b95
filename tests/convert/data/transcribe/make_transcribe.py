# SPDX-License-Identifier: Apache-2.0
"""Makes a Whisper of random weights, and what transformers writes of small sounds.

The folder then has what one of a trained model has: config and weights, the tokenizer, the sound
front end and the settings of generation; the exported program; and in expected.json tokens and
segments of each sound.
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save_program  # noqa: E402

RATE = 16000  # samples a second; a window is one second: 100 frames, 50 positions of the encoder
TIMES = 51
SPECIALS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>",
            "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>",
            "<|nospeech|>", "<|notimestamps|>"]


def tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(alphabet)}, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(SPECIALS)
    bpe.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>", special=False, normalized=False)
                    for i in range(TIMES)])
    return bpe


def model(tokens):
    ids = tokens.token_to_id
    end = ids("<|endoftext|>")
    config = transformers.WhisperConfig(
        vocab_size=tokens.get_vocab_size(), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
        decoder_ffn_dim=24, num_mel_bins=16, max_source_positions=50, max_target_positions=24,
        decoder_start_token_id=ids("<|startoftranscript|>"), pad_token_id=end, bos_token_id=end,
        eos_token_id=end)
    torch.manual_seed(5)
    whisper = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in whisper.named_parameters():
            parameter.copy_(0.4 * torch.randn_like(parameter) + name.endswith("norm.weight"))
    settings = whisper.generation_config
    settings.is_multilingual = True
    settings.lang_to_id = {name: ids(name) for name in SPECIALS[2:5]}
    settings.task_to_id = {"transcribe": ids("<|transcribe|>"), "translate": ids("<|translate|>")}
    settings.no_timestamps_token_id = ids("<|notimestamps|>")
    settings.prev_sot_token_id = ids("<|startofprev|>")
    settings.suppress_tokens = [3, 7, 21] + [ids(name) for name in SPECIALS[1:10]]
    settings.begin_suppress_tokens = [5, end]
    settings.max_initial_timestamp_index = 50
    settings.max_length = 24
    settings.decoder_start_token_id = ids("<|startoftranscript|>")
    settings.eos_token_id = settings.pad_token_id = settings.bos_token_id = end
    return whisper


class Program(torch.nn.Module):
    def __init__(self, whisper):
        super().__init__()
        self.model = whisper

    def forward(self, input_features, decoder_input_ids):
        return self.model(input_features, decoder_input_ids=decoder_input_ids, use_cache=False,
                          return_dict=False)[0]


def sound(seconds):
    """The same samples as in the test that reads the results."""
    i = np.arange(int(seconds * RATE), dtype=np.int64)
    samples = (i * (i // 16 + 300)).astype(np.int16) >> 2
    return samples.astype(np.float32) / 32768


def main():
    tokens = tokenizer()
    whisper = model(tokens)
    front = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=1)
    expected = {}
    for seconds in (0.7, 2.6):
        is_long = seconds > 1
        given = front(sound(seconds), sampling_rate=RATE, return_tensors="pt",
                      truncation=False, padding="longest" if is_long else "max_length",
                      return_attention_mask=True)
        for language in ("en", None):
            for times in (True,) if is_long else (False, True):
                result = whisper.generate(
                    given.input_features, attention_mask=given.attention_mask, language=language,
                    task="transcribe", return_timestamps=times, do_sample=False, num_beams=1,
                    return_segments=True)
                expected[f"{seconds} {language} {times}"] = [
                    [round(float(part["start"]), 2), round(float(part["end"]), 2),
                     part["tokens"].tolist()] for part in result["segments"][0]]
    example = (torch.zeros(1, 16, 100), torch.zeros(1, 7, dtype=torch.long))
    shapes = {"input_features": {}, "decoder_input_ids": {1: torch.export.Dim.AUTO(max=24)}}
    save_program(torch.export.export(Program(whisper), example, dynamic_shapes=shapes),
                 "whisper.pt2")
    with open("tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(json.loads(tokens.to_str()), file, separators=(",", ":"))
    whisper.save_pretrained(".")
    whisper.generation_config.save_pretrained(".")
    front.save_pretrained(".")
    with open("tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}, file)
    with open("expected.json", "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1)


if __name__ == "__main__":
    main()
