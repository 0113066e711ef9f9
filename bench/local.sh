#!/bin/bash
# Times haul against other tools on local file systems, in turn, each run on a file system made that moment.
#
#   bench/local.sh [-n PAIRS] [-o DIR] WORKLOAD...
#   WORKLOAD: small (37,760 files of 6.5 kB in one directory), medium (3,000 files of 1 MiB),
#             large (one file of 2 GiB), slow (1,000 files onto a store of 4 ms a call),
#             unchanged (sync of a tree that is the same; FILES=1000000), memory (peak of a first copy)
#
# Needs root, ext4 tools and rsync; builds what it measures (common.sh). Writes one CSV line a run to
# DIR/<workload>.csv (tool,run,seconds,user,sys,peak_kib,checked) and prints medians and ratios to `cp -r`.
set -euo pipefail
. "$(dirname "$0")/common.sh"
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
work=${HAUL_BENCH_DIR:-$(mktemp -d /var/tmp/haul-bench.XXXXXX)}
mkdir -p "$work" "$out"
export HAUL_STATE_DIR=$work/state
mnt=$work/mnt
mkdir -p "$mnt"
cleanup() {
    mountpoint -q "$work/slow" 2>/dev/null && umount "$work/slow" || true
    mountpoint -q "$work/src" 2>/dev/null && umount "$work/src" || true
    mountpoint -q "$work/back" 2>/dev/null && umount "$work/back" || true
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
    line=$(timed "$tool" "$@")
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
    awk -F, -v tool="$2" -v column="$1" '$1 == tool {print $column}' "$3" | middle
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
rivals=("cp -r:cp -r SRC DST" "haul cp:$haul cp -q SRC/ DST")
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
            compare large "${rivals[@]}" "haul cp --verify:$haul cp -q --verify SRC/ DST" "${others[@]}"
            ;;
        unchanged) # 1,000 directories of 1,000 files, on one ext4, the copy made before
            truncate -s 24G "$work/run.img"
            mkfs.ext4 -q -F -N 2600000 "$work/run.img"
            mount -o loop "$work/run.img" "$mnt"
            "$bin/haul-mktree" spread "$mnt/src" 1000 1000 100
            rsync -aHAX "$mnt/src/" "$mnt/dst/"
            csv=$out/unchanged.csv
            : >"$csv"
            for run in $(seq "$pairs"); do
                measure "rsync -a" "$run" "$csv" rsync -a "$mnt/src/" "$mnt/dst/"
                measure "rsync -rlpt" "$run" "$csv" rsync -rlpt "$mnt/src/" "$mnt/dst/"
                measure "haul sync" "$run" "$csv" "$haul" sync -q "$mnt/src/" "$mnt/dst"
            done
            summary "unchanged" "$csv" "rsync -a" "rsync -rlpt" "haul sync"
            csv=$out/unchanged-a.csv
            : >"$csv"
            for run in $(seq "$pairs"); do
                measure "rsync -aHAX" "$run" "$csv" rsync -aHAX "$mnt/src/" "$mnt/dst/"
                measure "haul sync -a" "$run" "$csv" "$haul" sync -a -q "$mnt/src/" "$mnt/dst"
            done
            summary "unchanged-a" "$csv" "rsync -aHAX" "haul sync -a"
            stale
            ;;
        memory) # peak of a first copy: 100,000 and 1,000,000 files of 100 bytes, tmpfs
            csv=$out/memory.csv
            : >"$csv"
            for files in 100 1000; do
                mount -t tmpfs -o size=12G,nr_inodes=5000000 none "$mnt"
                "$bin/haul-mktree" spread "$mnt/src" 1000 "$files" 100
                for flags in "-q" "-q -a"; do
                    # shellcheck disable=SC2086
                    measure "haul cp $flags ${files}000 files" 1 "$csv" "$haul" cp $flags "$mnt/src/" "$mnt/dst"
                    rm -rf "$mnt/dst"
                done
                umount "$mnt"
            done
            column -s, -t "$csv"
            ;;
        slow) # 1,000 files of 6.5 kB in 20 directories onto a store of 4 ms a metadata call, 2 ms a read or write
            csv=$out/slow.csv
            : >"$csv"
            mkdir -p "$work/src" "$work/back" "$work/slow"
            mount -t tmpfs none "$work/src"
            mount -t tmpfs none "$work/back"
            "$bin/haul-mktree" spread "$work/src/src" 20 50 6500
            "$bin/haul-slowfs" "$work/back" "$work/slow" &
            slow=$!
            while ! mountpoint -q "$work/slow"; do sleep 0.1; done
            for run in $(seq "$pairs"); do
                for tool in "haul cp" "cp -r" ${HAUL_BENCH_RSYNC:+"rsync -rlpt"}; do
                    [ "$run" -gt 1 ] && [ "$tool" = "rsync -rlpt" ] && continue # a minute a run
                    srcdir=$work/src/src dstdir=$work/back/dst
                    case $tool in
                        haul*) measure "$tool" "$run" "$csv" "$haul" cp -q "$work/src/src/" "$work/slow/dst" ;;
                        cp*) measure "$tool" "$run" "$csv" cp -r "$work/src/src" "$work/slow/dst" ;;
                        rsync*) measure "$tool" "$run" "$csv" rsync -rlpt "$work/src/src/" "$work/slow/dst" ;;
                    esac
                    rm -rf "$work/back/dst"
                    sleep 1.5 # the kernel's names of the last copy expire
                done
            done
            unset srcdir dstdir
            summary slow "$csv" "haul cp" "cp -r"
            umount "$work/slow"
            wait "$slow" || true
            umount "$work/back" "$work/src"
            ;;
        *)
            echo "no such workload: $workload" >&2
            exit 2
            ;;
    esac
done
