#!/bin/bash
# Times haul against aria2c -x 8 and curl: one file from nginx over an emulated link, in turn, onto tmpfs.
#
#   bench/web.sh [-n RUNS] [-o DIR] [-d DELAY] [-r RATE] [-s MIB]
#
# DELAY is that of one way (25ms), RATE in bytes a second (125M). Needs root, nginx, aria2 and curl; builds what it measures (common.sh).
# Writes one CSV line a run to DIR/web.csv (tool,run,seconds,user,sys,peak_kib,checked) and prints medians. Both sides share the processors.
set -euo pipefail
. "$(dirname "$0")/common.sh"
runs=5 out=bench/runs/$(date -u +%Y-%m-%d) delay=25ms rate=125M size=1024
while getopts n:o:d:r:s: flag; do
    case $flag in
        n) runs=$OPTARG ;;
        o) out=$OPTARG ;;
        d) delay=$OPTARG ;;
        r) rate=$OPTARG ;;
        s) size=$OPTARG ;;
        *) exit 2 ;;
    esac
done
if [ -z "${HAUL_BENCH_WEB:-}" ]; then
    work=$(mktemp -d /var/tmp/haul-bench.XXXXXX)
    mkdir -p "$out" "$work/data"
    trap 'umount "$work/data" 2>/dev/null; rm -rf "$work"' EXIT
    mount -t tmpfs -o size=4G none "$work/data"
    mkdir "$work/data/www" "$work/data/to"
    head -c "${size}M" /dev/urandom >"$work/data/www/file"
    printf '%s\n' "daemon off; user root; pid $work/pid; error_log $work/error; worker_processes 2;" "events { }" \
        "http { access_log off; sendfile on; server { listen 8080; root $work/data/www; } }" >"$work/conf"
    HAUL_BENCH_WEB=$work "$bin/haul-link" --delay "$delay" --rate "$rate" \
        --far "exec nginx -c $work/conf -p $work" -- "$0" -n "$runs" -o "$out"
    exit
fi
work=$HAUL_BENCH_WEB
export HAUL_STATE_DIR=$work/state
url=http://$HAUL_FAR:8080/file
until curl -sfI "$url" >/dev/null; do sleep 0.1; done
csv=$out/web.csv
: >"$csv"
measure() { # TOOL RUN COMMAND
    local tool=$1 run=$2 line
    shift 2
    rm -rf "$work/data/to" && mkdir "$work/data/to"
    line=$(timed "$tool" "$@")
    if cmp -s "$work/data/www/file" "$work/data/to/file"; then line+=,ok; else line+=,DIFFERS; fi
    echo "$tool,$run,$line" >>"$csv"
}
for run in $(seq "$runs"); do
    measure haul "$run" "$haul" cp -q "$url" "$work/data/to/file"
    measure aria2c-x8 "$run" aria2c -q -x 8 -s 8 -k 1M --file-allocation=none --allow-overwrite=true -d "$work/data/to" -o file "$url"
    measure curl "$run" curl -sf -o "$work/data/to/file" "$url"
done
for tool in haul aria2c-x8 curl; do
    echo "$tool: $(awk -F, -v t="$tool" '$1 == t {print $3}' "$csv" | middle) s"
done
