#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates what commands printed with --json against the schemas that the program has.

Usage: validate_json.py PROGRAM FILE...
A file is named after its command: inspect.json, bench.tokens.json. A document to which a key was
added must be refused: otherwise the schema says nothing. Exit code 77: jsonschema is missing.
"""

import functools
import json
import subprocess
import sys
from pathlib import Path

SKIPPED = 77


@functools.lru_cache(maxsize=None)
def schema_of(program, command):
    result = subprocess.run([program, "help", "--schema", command], capture_output=True, text=True,
                            check=True)
    return json.loads(result.stdout)


def main():
    try:
        import jsonschema
    except ImportError:
        print("skipped: python3-jsonschema is missing")
        return SKIPPED
    failed = 0
    for name in sys.argv[2:]:
        schema = schema_of(sys.argv[1], Path(name).name.split(".")[0])
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        document = json.loads(Path(name).read_text())
        for error in validator.iter_errors(document):
            print(f"{name}: {error.json_path}: {error.message[:300]}")
            failed = 1
        document["a key that nobody knows"] = 1
        if validator.is_valid(document):
            print(f"{name}: the schema takes any key")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
