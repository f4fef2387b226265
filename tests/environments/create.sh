#!/bin/sh
# Makes the environment that `make demo` and `make test` run in: create.sh FOLDER
#
# It has the newest Python that longhand supports and for which a torch can be installed, of several of one version the
# fastest. PYTHON=... takes that Python, TORCH=... that torch ("torch==2.12.*"); TORCH_INDEX=... says where CPU builds of
# torch are looked for besides where pip looks (empty: nowhere else).
set -eu

for name in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    # A command may be there and fail (a shim of pyenv's): what counts is that it runs.
    if "$name" -c '' 2>/dev/null; then
        if "$name" "$(dirname "$0")/create.py" "$1"; then exit 0; fi
    elif [ -n "${PYTHON:-}" ]; then
        echo "PYTHON=$name does not run." >&2
    fi
done
echo "No Python 3.11 to 3.13 was found for which torch can be installed; PYTHON=... names one." >&2
exit 1
