# Read by the benches: where the programs are, one timed command, and the middle of a column.
# Sets $haul, the program that is measured: HAUL_BENCH_PROGRAM, else the static one as ./release builds it. Sets $bin, where
# the helpers of haul-test are. Builds the missing ones, once: a bench that starts itself again does not build again.
# Whoever uses `timed` has set $work.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${CARGO_TARGET_DIR:-$PWD/target}/release
haul=${HAUL_BENCH_PROGRAM:-${CARGO_TARGET_DIR:-$PWD/target}/$(uname -m)-unknown-linux-musl/release/haul}
if [ -z "${HAUL_BENCH_BUILT:-}" ]; then
    [ -n "${HAUL_BENCH_PROGRAM:-}" ] || ./release >&2
    cargo build --release --locked --quiet -p haul-test --bins >&2
    export HAUL_BENCH_BUILT=1
fi
haul=$(command -v "$haul") || { echo "there is no program ${HAUL_BENCH_PROGRAM:-$haul}; see HAUL_BENCH_PROGRAM" >&2 && exit 1; }
haul=$(realpath "$haul")

# timed TOOL COMMAND...: runs it and prints seconds,user,system,peak_kib, also where it fails, which is said. The times
# are those of the command and of what it waited for. What it prints goes to $work/out and $work/err.
timed() {
    local tool=$1
    shift
    /usr/bin/time -f '%e,%U,%S,%M' "$@" >"$work/out" 2>"$work/err" || {
        echo "$tool failed:" >&2
        tail -n 5 "$work/err" >&2
    }
    tail -n 1 "$work/err"
}

middle() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
