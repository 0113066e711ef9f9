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
    "$@" "$mnt/src"
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

summary() {
    echo "== $1 ($(nproc) processors, $(uname -r), median of $pairs, ratio to the first tool)"
    awk -F, '{ t[$1] = t[$1] " " $3; m[$1] = m[$1] " " $6; bad[$1] += ($7 != "ok"); if (!($1 in seen)) { seen[$1]; order[++n] = $1 } }
        function median(list,   v, k) { k = split(list, v, " "); asort(v); return v[int((k + 1) / 2)] }
        END { base = median(t[order[1]]); for (i = 1; i <= n; i++) { x = median(t[order[i]]);
            printf "%-24s %8.2f s   %5.2f   peak %6.1f MiB%s\n", order[i], x, x / base, median(m[order[i]]) / 1024, bad[order[i]] ? "   NOT COMPLETE" : "" } }' "$2"
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
    summary "$name" "$csv"
}

have() { command -v "$1" >/dev/null 2>&1; }
rivals=("cp -r:cp -r SRC DST" "haul cp:$bin/haul cp -q SRC/ DST")
others=("rsync -rlpt:rsync -rlpt SRC/ DST" "tar | tar:mkdir DST && tar -C SRC -cf - . | tar -C DST -xf -")
have fpsync && others+=("fpsync:fpsync -n 4 SRC/ DST/")
have xcp && others+=("xcp:xcp -r --no-progress SRC DST")

for workload in "$@"; do
    case $workload in
        small)
            template small 1024 "$bin/haul-mktree" flat
            : "COUNT and SIZE follow the directory"
            compare small "${rivals[@]}" "bare loop, 2 threads:mkdir DST && $bin/haul-bareloop 2 SRC DST" "${others[@]}"
            ;;
        medium)
            template medium 8192 "$bin/haul-mktree" medium
            compare medium "${rivals[@]}" "${others[@]}"
            ;;
        large)
            template large 6144 sh -c 'head -c 2147483648 /dev/urandom >"$1/big"' sh
            compare large "${rivals[@]}" "haul cp --verify:$bin/haul cp -q --verify SRC/ DST" "${others[@]}"
            ;;
        *)
            echo "no such workload: $workload" >&2
            exit 2
            ;;
    esac
done
