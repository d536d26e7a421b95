#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The demonstration behind `make demo`. Usage: demo.sh BUILD_FOLDER
set -eu
build=$1
"$build/arenite" --version
