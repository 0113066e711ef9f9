#!/bin/bash
# Times haul-mpi against haul on this machine, in turn, each run on a file system made that moment.
#
#   bench/mpi.sh [-n ROUNDS] [-o DIR] WORKLOAD...
#   WORKLOAD: small (37,760 files of 6.5 kB on ext4: 2 ranks of one worker, haul -j 2),
#             large (one file of 2 GiB on ext4: 4 ranks, haul),
#             slow (1,000 files in 20 directories onto a store of 4 ms a metadata call: 1 to 32 ranks, haul)
#
# Needs root, ext4 tools and Open MPI. HAUL_BENCH_MPI names the directory of haul and haul-mpi, both built the same way (default
# target/release, built first). Writes one CSV line per run to DIR/<workload>.csv (tool,run,job_seconds,wall_seconds,checked):
# job_seconds is what the summary says, wall_seconds has the start of MPI, too.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=3
out=bench/runs/$(date -u +%Y-%m-%d)-mpi
while getopts n:o: flag; do
    case $flag in
        n) rounds=$OPTARG ;;
        o) out=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
bin=${HAUL_BENCH_MPI:-}
if [ -z "$bin" ]; then
    cargo build --release --locked --quiet -p haul -p haul-mpi >&2
    cargo build --release --locked --quiet -p haul-test --bins >&2
    bin=${CARGO_TARGET_DIR:-$PWD/target}/release
fi
slowfs=${HAUL_BENCH_SLOWFS:-$bin/haul-slowfs}
work=${HAUL_BENCH_DIR:-$(mktemp -d /var/tmp/haul-bench.XXXXXX)}
mkdir -p "$work/tmp" "$out"
mnt=$work/mnt
mkdir -p "$mnt" "$work/slow"
export HAUL_STATE_DIR=$work/state TMPDIR=$work/tmp OMPI_MCA_orte_tmpdir_base=$work/tmp
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 HWLOC_COMPONENTS=-gl
cleanup() {
    mountpoint -q "$work/slow" 2>/dev/null && umount "$work/slow" || true
    mountpoint -q "$mnt" && umount "$mnt" || true
    rm -rf "$work"
}
trap cleanup EXIT

# fresh SIZE_MIB: an empty ext4.
fresh() {
    mountpoint -q "$mnt" && umount "$mnt"
    rm -f "$work/run.img"
    truncate -s "$1M" "$work/run.img"
    mkfs.ext4 -q -F "$work/run.img"
    mount -o loop "$work/run.img" "$mnt"
}

# measure CSV TOOL RUN SRC DST COMMAND...
measure() {
    local csv=$1 tool=$2 run=$3 src=$4 dst=$5 job wall begun checked=ok
    shift 5
    sync
    begun=$(date +%s.%N)
    "$@" >"$work/out" 2>"$work/err" || {
        echo "$tool failed:" >&2
        tail -n 5 "$work/err" >&2
    }
    wall=$(echo "$(date +%s.%N) $begun" | awk '{printf "%.3f", $1 - $2}')
    job=$(sed -n 's/.*"event":"finished".*"elapsed":\([0-9.]*\),"found".*/\1/p' "$work/out")
    diff -rq "$src" "$dst" >/dev/null || checked=DIFFERS
    echo "$tool,$run,$job,$wall,$checked" >>"$csv"
}

ranks() { # N; the words of haul-mpi
    local n=$1
    shift
    mpirun -n "$n" "$bin/haul-mpi" "$@" --json
}

report() { # CSV TOOL...
    local csv=$1 tool
    shift
    for tool; do
        awk -F, -v tool="$tool" '$1 == tool {print $3, $4}' "$csv" | sort -n |
            awk -v tool="$tool" '{job[NR] = $1; wall[NR] = $2} END {m = int((NR + 1) / 2); print tool ": job " job[m] " s, with MPI " wall[m] " s, median of " NR}'
    done
}

small() {
    local csv=$out/small.csv src=$work/src i
    mkdir -p "$src"
    head -c $((37760 * 6500)) /dev/urandom | split -b 6500 -a 5 -d - "$src/"
    for i in $(seq "$rounds"); do
        fresh 700
        measure "$csv" haul-j2 "$i" "$src" "$mnt/dst" "$bin/haul" cp -j 2 "$src/" "$mnt/dst" --json
        fresh 700
        measure "$csv" ranks-2 "$i" "$src" "$mnt/dst" ranks 2 cp -j 1 "$src/" "$mnt/dst"
    done
    report "$csv" haul-j2 ranks-2
}

large() {
    local csv=$out/large.csv src=$work/large i
    mkdir -p "$src"
    [ -e "$src/file" ] || head -c 2G /dev/urandom >"$src/file"
    for i in $(seq "$rounds"); do
        fresh 3000
        measure "$csv" haul "$i" "$src" "$mnt/dst" "$bin/haul" cp "$src/" "$mnt/dst" --json
        fresh 3000
        measure "$csv" ranks-4 "$i" "$src" "$mnt/dst" ranks 4 cp "$src/" "$mnt/dst"
    done
    report "$csv" haul ranks-4
}

slow() {
    local csv=$out/slow.csv src=$work/tree i n
    for i in $(seq 0 19); do
        mkdir -p "$src/$i"
        head -c $((50 * 6500)) /dev/urandom | split -b 6500 -d - "$src/$i/"
    done
    for i in $(seq "$rounds"); do
        for n in 0 1 2 4 8 16 32; do
            rm -rf "$work/back"
            mkdir "$work/back"
            "$slowfs" "$work/back" "$work/slow" &
            until mountpoint -q "$work/slow"; do sleep 0.05; done
            if [ "$n" = 0 ]; then
                measure "$csv" haul "$i" "$src" "$work/back/dst" "$bin/haul" cp "$src/" "$work/slow/dst" --json
            else
                measure "$csv" "ranks-$n" "$i" "$src" "$work/back/dst" ranks "$n" cp "$src/" "$work/slow/dst"
            fi
            umount "$work/slow"
            wait
        done
    done
    report "$csv" haul ranks-1 ranks-2 ranks-4 ranks-8 ranks-16 ranks-32
}

for workload; do
    case $workload in
        small | large | slow) "$workload" ;;
        *) echo "no workload $workload" >&2 && exit 2 ;;
    esac
done
