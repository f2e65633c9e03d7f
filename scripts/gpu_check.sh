#!/usr/bin/env bash
# Everything that only a GPU host can show, in one go and one result file:
#
#     scripts/gpu_check.sh BUNDLE PHOTOS [RESULT]
#
# BUNDLE is an exported bundle (it is copied, not changed), PHOTOS a folder of pictures. Each step is
# run, skipped with the reason, or failed; the file says which. Without a GPU the steps that need one
# are skipped, and the exit code is 3. PYTHON names the interpreter.
set -uo pipefail
if [ $# -lt 2 ]; then
    echo "usage: $0 BUNDLE PHOTOS [RESULT]" >&2
    exit 2
fi
bundle=$1 photos=$2 result=${3:-bench/results/gpu.json}
python=${PYTHON:-python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
steps="$work/steps.jsonl"
: >"$steps"

note() { # NAME STATUS DETAIL
    "$python" -c 'import json, sys; print(json.dumps(dict(zip(("step", "status", "detail"), sys.argv[1:]))))' \
        "$@" >>"$steps"
    printf '%-28s %-8s %s\n' "$1" "$2" "$3"
}

step() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        note "$name" passed "$(tail -n 1 "$work/log" | sed "s|$work/||g")"
    else
        note "$name" failed "$(tail -n 1 "$work/log" | sed "s|$work/||g")"
    fi
}

on_gpu() { # like step, where there is a GPU
    if [ -n "$gpu" ]; then step "$@"; else note "$1" skipped "no GPU here"; fi
}

coverlock() { "$python" -m coverlock_sdk "$@"; }

gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1) || gpu=""
cp -r "$bundle" "$work/bundle"
bundle="$work/bundle"
precisions=$("$python" -c 'import json, sys; print(*json.load(open(sys.argv[1]))["graphs"]["verify"])' \
    "$bundle/manifest.json") || exit 2

step "sign" coverlock sign "$bundle" --key "$work/signing.key" --new-key
on_gpu "pytest -m gpu" "$python" -m pytest -q -m gpu tests
for precision in $precisions; do
    on_gpu "compile $precision" coverlock compile "$bundle" --target tensorrt \
        --precision "$precision" --trust "$work/signing.pub"
    on_gpu "sign $precision" coverlock sign "$bundle" --key "$work/signing.key"
done
step "mark" coverlock embed "$photos" -o "$work/marked" --bundle "$bundle" --id gpu-check
for precision in $precisions; do
    step "cpu $precision" coverlock verify "$work/marked" --bundle "$bundle" \
        --runtime "cpu:$precision" --id gpu-check
    for runtime in cuda tensorrt; do
        on_gpu "$runtime $precision" coverlock verify "$work/marked" --bundle "$bundle" \
            --runtime "$runtime:$precision" --trust "$work/signing.pub" --id gpu-check
    done
done
on_gpu "latency" coverlock bench latency "$bundle" --images "$photos" --clock wall \
    --out "$work/latency.json"
if [ -n "$gpu" ] && command -v tritonserver >/dev/null; then
    step "triton repository" coverlock triton "$bundle" --out "$work/repository" \
        --trust "$work/signing.pub"
    tritonserver --model-repository="$work/repository" >"$work/triton.log" 2>&1 &
    server=$!
    sleep 30
    step "triton" env COVERLOCK_TRITON=localhost:8001 "$python" -m coverlock_sdk verify \
        "$work/marked" --bundle "$bundle" --runtime triton --id gpu-check
    kill "$server"
else
    note "triton" skipped "no GPU, or no tritonserver on the path"
fi

"$python" - "$steps" "$result" "$gpu" "$work/latency.json" <<'PYTHON'
import json
import sys
from pathlib import Path

from coverlock_bench.results import write_result

steps, result, gpu, latency = sys.argv[1:]
rows = [json.loads(line) for line in Path(steps).read_text().splitlines()]
timed = json.loads(Path(latency).read_text())["figures"] if Path(latency).exists() else None
figures = {"steps": rows, "latency": timed}
write_result(Path(result), "scripts/gpu_check.sh", {"gpu": gpu or None}, figures)
PYTHON
echo "result file: $result"
grep -q '"status": "failed"' "$steps" && exit 1
if [ -z "$gpu" ]; then
    echo "there is no GPU here: what needs one was skipped" >&2
    exit 3
fi
