#!/usr/bin/env bash
# make check: style, types, layers, and that the generated reference is up to date. Runs all of them, fails if one does.
source "$(dirname "$0")/lib.sh"

exclusive
ensure_venv check
flock -u 9
bin=$VENV/bin
failed=()
step() { # COMMAND...
    say "== $*"
    "$bin/$1" "${@:2}" || failed+=("$1 ${*:2}")
}
step ruff check .
step ruff format --check .
step mypy --strict -p zun
step lint-imports
step python scripts/gen_reference.py --check
((${#failed[@]} == 0)) || die "Failed: $(printf '%s; ' "${failed[@]}")"
say "All clean."
