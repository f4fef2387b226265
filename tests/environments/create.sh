#!/bin/sh
# Makes the environment that `make demo` and `make test` run in: create.sh FOLDER
#
# It takes the newest Python that longhand supports, but rather one that has a torch, or for which pip finds a CPU
# build, than one for which gigabytes of CUDA would have to be downloaded. PYTHON=... takes that Python, TORCH=...
# that torch ("torch==2.12.*"). TORCH_INDEX is where CPU builds are looked for in the end; empty looks nowhere else.
set -eu

folder=$1
here=$(dirname "$0")
index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}

best=''
for name in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    # A command may be there and fail (a shim of pyenv's): what counts is that it runs.
    if rating=$("$name" "$here/rate.py" 2>/tmp/longhand-rating.$$); then
        if [ -z "$best" ] || [ "${rating%%|*}" -lt "${best%%|*}" ]; then
            best=$rating
            python=$name
        fi
    elif [ -n "${PYTHON:-}" ]; then
        cat /tmp/longhand-rating.$$ >&2
    fi
    rm -f /tmp/longhand-rating.$$
done
if [ -z "$best" ]; then
    echo "No Python 3.11 to 3.13 with venv and headers was found; PYTHON=... names one." >&2
    exit 1
fi

if [ "${best%%|*}" = 3 ] && [ -n "$index" ] && [ -z "${TORCH:-}" ]; then
    best=$("$python" "$here/rate.py" "$index")
    [ "${best%%|*}" = 3 ] || export PIP_EXTRA_INDEX_URL="$index"
fi
requirement=${best#*|}
why=${requirement#*|}
requirement=${TORCH:-${requirement%%|*}}
echo "$("$python" -V) ($("$python" -c 'import sys; print(sys.executable)')): ${TORCH:+TORCH=$TORCH; }$why"

options=''
[ "${best%%|*}" != 1 ] || [ -n "${TORCH:-}" ] || options=--system-site-packages
"$python" -m venv --clear $options "$folder"
"$folder/bin/pip" install --quiet --upgrade pip
"$folder/bin/pip" install --quiet "$requirement"
