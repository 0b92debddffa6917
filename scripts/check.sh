#!/usr/bin/env bash
# make check: style, types, layers, and that the generated reference is up to date.
source "$(dirname "$0")/lib.sh"

exclusive
ensure_venv check '[test,check]'
flock -u 9
bin=$VENV/bin
"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/mypy" --strict -p zun
"$bin/lint-imports"
"$bin/python" scripts/gen_reference.py --check
