#!/usr/bin/env bash
# Installs what the testbed runs: Debian packages and one Python environment. Safe to repeat. Root, Debian 12.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
ready_to_run

packages() {
    local packages
    mapfile -t packages <"$HERE/packages"
    install_packages "${packages[@]}"
}

environment() {
    local log=$LOG/pip.log wanted
    wanted=$(cat "$HERE/requirements.in" "$HERE/constraints.txt" | sha256sum)
    [[ $(cat "$STAMP/venv" 2>/dev/null) == "$wanted" ]] && return 0
    need_python
    step "installing Python packages into $VENV"
    rm -f "$STAMP/venv"
    { [[ -x $VENV/bin/python ]] && "$VENV/bin/python" -c ''; } 2>/dev/null \
        || "$PYTHON" -m venv --clear "$VENV" >"$log" 2>&1 || fail "no virtual environment could be made." "$log"
    # uv resolves and unpacks the same packages several times faster than pip, which does where uv cannot.
    # Compiling now spares the first start of every service from doing it.
    "$VENV/bin/pip" install -q --disable-pip-version-check uv==0.13.9 >"$log" 2>&1 \
        && timeout 900 "$VENV/bin/uv" pip install --compile-bytecode --python "$VENV/bin/python" \
            -r "$HERE/requirements.in" -c "$HERE/constraints.txt" >>"$log" 2>&1 \
        || timeout 1800 "$VENV/bin/pip" install --disable-pip-version-check \
            -r "$HERE/requirements.in" -c "$HERE/constraints.txt" >>"$log" 2>&1 \
        || fail "the Python packages could not be installed." "$log"
    say "$wanted" >"$STAMP/venv"
}

packages
environment
