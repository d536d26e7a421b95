#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes heard.pt2, which takes features of any length, with PyTorch 2.14 and transformers 5:
make_padded_sound.py FOLDER.

The extractors that whisper.json and ast.json describe pad the sound in samples.npy; whisper.npy and
ast.npy are what the program makes of that, in float64.
"""
import copy
import json
import os
import sys

import numpy as np
import torch
import torch.nn as nn
from transformers import ASTFeatureExtractor, WhisperFeatureExtractor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from save_cases import save  # noqa: E402

BANDS, RATE = 8, 16000


class Heard(nn.Module):
    """Attention over all frames, and their mean: padding counts."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(BANDS, 2, batch_first=True)
        self.layer = nn.Linear(BANDS, 4)

    def forward(self, x):
        return self.layer((x + self.attention(x, x, x)[0]).mean(1))


def main(folder):
    torch.manual_seed(7)
    model = Heard().eval()
    save(model, (torch.zeros(1, 20, BANDS),), os.path.join(folder, "heard.pt2"), any_length=True)
    sound = np.load(os.path.join(folder, "samples.npy"))
    whisper = WhisperFeatureExtractor(feature_size=BANDS, chunk_length=1)
    ast = ASTFeatureExtractor(num_mel_bins=BANDS, max_length=40, mean=-4.0, std=4.5)
    features = {"whisper": whisper(sound, sampling_rate=RATE).input_features.swapaxes(1, 2),
                "ast": np.stack(ast(sound, sampling_rate=RATE).input_values)}
    for name, extractor in (("whisper", whisper), ("ast", ast)):
        config = {key: value for key, value in extractor.to_dict().items()
                  if key not in ("mel_filters", "window")}
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=1)
        with torch.no_grad():
            output = copy.deepcopy(model).double()(torch.from_numpy(features[name]).double())
        np.save(os.path.join(folder, name + ".npy"), output.numpy())


if __name__ == "__main__":
    main(sys.argv[1])
