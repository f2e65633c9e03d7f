#!/usr/bin/env bash
# Everything that only a GPU host can show, in one go and one result file:
#
#     scripts/gpu_check.sh BUNDLE PHOTOS [RESULT]
#
# BUNDLE is an exported bundle (it is copied, not changed), PHOTOS a folder of pictures. If the
# bundle needs a key, COVERLOCK_KEY_FILE names its file; PYTHON names the interpreter. Each step is
# run, skipped with the reason (no GPU, a package that is not installed), or failed. RESULT says
# which, and RESULT-logs/ keeps what each step printed. Exit codes: 0 all passed, 1 a step failed,
# 2 wrong arguments, 3 steps were skipped.
#
# Run it in the image of docker/gpu.Dockerfile.
set -uo pipefail
if [ $# -lt 2 ]; then
    echo "usage: $0 BUNDLE PHOTOS [RESULT]" >&2
    exit 2
fi
bundle=$1 photos=$2 result=${3:-gpu.json}
python=${PYTHON:-python}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs="${result%.json}-logs"
mkdir -p "$logs"
steps="$work/steps.jsonl"
: >"$steps"

note() { # NAME STATUS DETAIL
    "$python" -c 'import json, sys; print(json.dumps(dict(zip(("step", "status", "detail"), sys.argv[1:]))))' \
        "$@" >>"$steps"
    printf '%-28s %-8s %s\n' "$1" "$2" "$3"
}

step() { # NAME COMMAND...
    local name=$1 log="$logs/${1// /-}.log" status=failed detail
    shift
    if "$@" >"$log" 2>&1; then
        status=passed
    elif grep -qE "pip install|is not installed|has no TensorRT engine|serves RTX GPUs" "$log"; then
        status=skipped # what is missing is named in the detail
    fi
    detail=$(grep -v '^$' "$log" | tail -n 1)
    note "$name" "$status" "${detail//"$work/"/}"
    [ "$status" = passed ]
}

on_gpu() { # like step, where there is a GPU
    if [ -n "$gpu" ]; then step "$@"; else note "$1" skipped "no GPU here"; fi
}

coverlock() { "$python" -m coverlock_sdk "$@"; }

verified() { # NAME BUNDLE RUNTIME PRECISION
    local name=$1 run=step
    shift
    [ "$2" = cpu ] || run=on_gpu
    $run "$name" coverlock verify "$work/marked" --bundle "$1" --runtime "$2:$3" \
        --trust "$signer" --id gpu-check
    $run "$name bits" "$python" "$here/bit_agreement.py" "$1" "$work/marked" "$2" "$3" "$signer"
}

gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) || gpu=""
cp -r "$bundle" "$work/bundle" || exit 2
bundle="$work/bundle"
signer="$work/signing.pub"
precisions=$("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1]))["graphs"]["verify"])' \
    "$bundle/manifest.json") || exit 2

step "sign" coverlock sign "$bundle" --key "$work/signing.key" --new-key
on_gpu "pytest -m gpu" "$python" -m pytest -q -m gpu tests
step "mark" coverlock embed "$photos" -o "$work/marked" --bundle "$bundle" --id gpu-check
for precision in $precisions; do
    verified "cpu $precision" "$bundle" cpu "$precision"
    verified "cuda $precision" "$bundle" cuda "$precision"
done
for target in tensorrt tensorrt-rtx; do
    engines="$work/$target"
    cp -r "$bundle" "$engines"
    for precision in $precisions; do
        on_gpu "compile $target $precision" coverlock compile "$engines" --target "$target" \
            --precision "$precision" --trust "$signer"
        on_gpu "sign $target $precision" coverlock sign "$engines" --key "$work/signing.key"
        verified "$target $precision" "$engines" tensorrt "$precision"
    done
    on_gpu "latency $target" coverlock bench latency "$engines" --images "$photos" --clock wall \
        --trust "$signer" --out "$engines.json"
done

"$python" - "$steps" "$result" "$gpu" "$work"/tensorrt{,-rtx}.json <<'PYTHON'
import json
import sys
from pathlib import Path

from coverlock_bench.results import write_result

steps, result, gpu, *latency = sys.argv[1:]
rows = [json.loads(line) for line in Path(steps).read_text().splitlines()]
files = [file for file in map(Path, latency) if file.exists()]
timed = {file.stem: json.loads(file.read_text())["figures"] for file in files}
figures = {"steps": rows, "latency": timed}
write_result(Path(result), "scripts/gpu_check.sh", {"gpu": gpu or None}, figures)
PYTHON
echo "result file: $result"
grep -q '"status": "failed"' "$steps" && exit 1
if grep -q '"status": "skipped"' "$steps"; then
    echo "steps were skipped: $result says why" >&2
    exit 3
fi
