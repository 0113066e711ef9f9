#!/bin/bash
# Times haul against other tools on local file systems, in turn, each run on a file system made that moment.
#
#   bench/local.sh [-n PAIRS] [-o DIR] WORKLOAD...
#   WORKLOAD: small (37,760 files of 6.5 kB in one directory), medium (3,000 files of 1 MiB),
#             large (one file of 2 GiB), slow (1,000 files onto a store of 4 ms a call),
#             unchanged (sync of a tree that is the same; FILES=1000000), memory (peak of a first copy)
#
# Needs root, ext4 tools, rsync and the release build of haul and haul-test. Writes one CSV line a run to
# DIR/<workload>.csv (tool,run,seconds,user,sys,peak_kib,checked) and prints medians and ratios to `cp -r`.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=5
out=bench/runs/$(date -u +%Y-%m-%d)
while getopts n:o: flag; do
    case $flag in
        n) pairs=$OPTARG ;;
        o) out=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
bin=$PWD/target/release
work=${HAUL_BENCH_DIR:-$(mktemp -d /var/tmp/haul-bench.XXXXXX)}
mkdir -p "$work" "$out"
export HAUL_STATE_DIR=$work/state
mnt=$work/mnt
mkdir -p "$mnt"
cleanup() {
    mountpoint -q "$work/slow" 2>/dev/null && umount "$work/slow" || true
    mountpoint -q "$work/src" 2>/dev/null && umount "$work/src" || true
    mountpoint -q "$mnt" && umount "$mnt" || true
    rm -rf "$work"
}
trap cleanup EXIT

# template NAME SIZE_MIB: a fresh ext4 with the data set under src/, made once and copied for every run.
template() {
    local name=$1 size=$2
    shift 2
    truncate -s "${size}M" "$work/$name.img"
    mkfs.ext4 -q -F "$work/$name.img"
    mount -o loop "$work/$name.img" "$mnt"
    mkdir "$mnt/src"
    (cd "$mnt/src" && "$@")
    umount "$mnt"
}

fresh() {
    cp --sparse=always "$work/$1.img" "$work/run.img"
    mount -o loop "$work/run.img" "$mnt"
    find "$mnt/src" -type f -print0 | xargs -0 cat >/dev/null # warm
    sync
}

stale() {
    umount "$mnt"
    rm -f "$work/run.img"
}

# measure TOOL RUN CSV COMMAND...
measure() {
    local tool=$1 run=$2 csv=$3
    shift 3
    local line
    line=$({ /usr/bin/time -f '%e,%U,%S,%M' "$@" >"$work/out" 2>"$work/err"; } 2>&1 && tail -n 1 "$work/err") || {
        echo "$tool failed:" >&2
        tail -n 5 "$work/err" >&2
        line=$(tail -n 1 "$work/err")
    }
    echo "$tool,$run,$line,$(check)" >>"$csv"
}

# Whether the copy is complete: the number of files and bytes.
check() {
    local a b
    a=$(find "${srcdir:-$mnt/src}" -type f -printf '%s\n' | awk '{n++; s+=$1} END {print n, s}')
    b=$(find "${dstdir:-$mnt/dst}" -type f -printf '%s\n' | awk '{n++; s+=$1} END {print n, s}')
    [ "$a" = "$b" ] && echo ok || echo "DIFFERS($a/$b)"
}

median() { # COLUMN TOOL CSV
    awk -F, -v tool="$2" -v column="$1" '$1 == tool {print $column}' "$3" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

summary() { # NAME CSV TOOL...
    local name=$1 csv=$2 tool base="" seconds peak state
    shift 2
    echo "== $name ($(nproc) processors, $(uname -r), median of $pairs, ratio to the first tool)"
    for tool in "$@"; do
        seconds=$(median 3 "$tool" "$csv")
        peak=$(median 6 "$tool" "$csv")
        base=${base:-$seconds}
        state=$(awk -F, -v tool="$tool" '$1 == tool && $7 != "ok"' "$csv" | wc -l)
        awk -v t="$tool" -v s="$seconds" -v b="$base" -v p="$peak" -v bad="$state" \
            'BEGIN {printf "%-24s %8.2f s   %5.2f   peak %6.1f MiB%s\n", t, s, s / b, p / 1024, bad ? "   NOT COMPLETE" : ""}'
    done
}

compare() { # NAME, then tools as "label:command" with SRC and DST
    local name=$1 csv=$out/$1.csv
    shift
    : >"$csv"
    local run tool
    for run in $(seq "$pairs"); do
        for tool in "$@"; do
            fresh "$name"
            local command=${tool#*:}
            command=${command//SRC/$mnt/src}
            command=${command//DST/$mnt/dst}
            measure "${tool%%:*}" "$run" "$csv" sh -c "$command"
            stale
        done
    done
    summary "$name" "$csv" "${@%%:*}"
}

have() { command -v "$1" >/dev/null 2>&1; }
rivals=("cp -r:cp -r SRC DST" "haul cp:$bin/haul cp -q SRC/ DST")
others=("rsync -rlpt:rsync -rlpt SRC/ DST" "tar | tar:mkdir DST && tar -C SRC -cf - . | tar -C DST -xf -")
have fpsync && others+=("fpsync:fpsync -n 4 SRC/ DST/")
have xcp && others+=("xcp:xcp -r --no-progress SRC DST")

for workload in "$@"; do
    case $workload in
        small)
            template small 2048 "$bin/haul-mktree" flat . 37760 6500
            compare small "${rivals[@]}" "bare loop x2:$bin/haul-bareloop 2 SRC DST" "${others[@]}"
            ;;
        medium)
            template medium 8192 "$bin/haul-mktree" flat . 3000 1048576
            compare medium "${rivals[@]}" "${others[@]}"
            ;;
        large)
            template large 6144 sh -c 'head -c 2147483648 /dev/urandom >big'
            compare large "${rivals[@]}" "haul cp --verify:$bin/haul cp -q --verify SRC/ DST" "${others[@]}"
            ;;
        *)
            echo "no such workload: $workload" >&2
            exit 2
            ;;
    esac
done
