# SPDX-License-Identifier: Apache-2.0
"""The recall task: embeddings of a token, sampling of sequences, decoding of outputs.

A sequence is a list of tokens. A binding token says "key k now has value v"; a query token asks
"which value does key k have?". The answer is the value of the latest binding of that key. Only
numpy is needed, so that training and checking share one definition of the task.
"""

import numpy as np

KEYS = 8
VALUES = 8
CONTEXT = 32           # positions in a sequence
FEATURES = KEYS + VALUES + 2
NOISE = 0.03           # standard deviation per key and value column; embeddings have length 1
QUERY_SHARE = 0.3      # chance that a position is a query; the first never is, the last always is

KEY_COLUMNS = slice(0, KEYS)
VALUE_COLUMNS = slice(KEYS, KEYS + VALUES)
CONTENT_COLUMNS = slice(0, KEYS + VALUES)
QUERY_COLUMN = KEYS + VALUES
POSITION_COLUMN = KEYS + VALUES + 1


def embedding_tables():
    """The rows that add up to a token, float32 [n, FEATURES] each.

    A binding is key + value + position, a query is key + query + position. The position is a
    ramp: without it attention cannot tell the latest binding of a key from an older one.
    """
    rows = {"key": KEYS, "value": VALUES, "query": 1, "position": CONTEXT}
    tables = {name: np.zeros((n, FEATURES), np.float32) for name, n in rows.items()}
    tables["key"][:, KEY_COLUMNS] = np.eye(KEYS)
    tables["value"][:, VALUE_COLUMNS] = np.eye(VALUES)
    tables["query"][0, QUERY_COLUMN] = 1.0
    tables["position"][:, POSITION_COLUMN] = np.arange(CONTEXT) / CONTEXT
    return tables


def sample_tokens(rng, sequences):
    """Draws keys, values and answers, each int [sequences, CONTEXT].

    A binding has the answer -1; a query has the value -1 and an answer. A query asks only for a
    key that was bound before it, each such key with the same chance.
    """
    shape = (sequences, CONTEXT)
    keys = rng.integers(KEYS, size=shape)
    values = rng.integers(VALUES, size=shape)
    queries = rng.random(shape) < QUERY_SHARE
    queries[:, 0] = False
    queries[:, -1] = True
    values[queries] = -1
    answers = np.full(shape, -1)
    bound = np.full((sequences, KEYS), -1)
    for t in range(CONTEXT):
        binds, asks = np.flatnonzero(~queries[:, t]), np.flatnonzero(queries[:, t])
        bound[binds, keys[binds, t]] = values[binds, t]
        lots = np.where(bound[asks] >= 0, rng.random((len(asks), KEYS)), -1.0)
        keys[asks, t] = lots.argmax(axis=1)
        answers[asks, t] = bound[asks, keys[asks, t]]
    return keys, values, answers


def features(rng, keys, values, noise=NOISE):
    """Noisy token features, float32 [sequences, CONTEXT, FEATURES]."""
    tables = embedding_tables()
    is_query = values[..., None] < 0
    content = np.where(is_query, tables["query"][0], tables["value"][values])
    x = tables["key"][keys] + content + tables["position"]
    jitter = rng.normal(0.0, noise, x[..., CONTENT_COLUMNS].shape)
    x[..., CONTENT_COLUMNS] += jitter.astype(np.float32)
    return x


def decode(outputs):
    """Index of the value embedding nearest to each output row: [..., FEATURES] -> int [...]."""
    table = embedding_tables()["value"]
    distances = ((outputs[..., None, :] - table) ** 2).sum(axis=-1)
    return distances.argmin(axis=-1)
