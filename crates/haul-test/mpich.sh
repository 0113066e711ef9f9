#!/bin/sh
# Builds haul-mpi and its bindings a second time, against MPICH, copies the programs to target/mpich/debug and runs smoke tests with
# mpirun.mpich. Everything else is the build that ./test uses anyway.
set -eu
cd "$(dirname "$0")/../.."

# The build of the bindings does not notice another mpicc. In a profile of their own they, and what uses them, are built beside those
# for Open MPI and stay there.
own='profile.dev.package.mpi-sys.debug="line-tables-only"'
place=$PWD/target/mpich/debug
rm -rf "$place"
mkdir -p "$place/deps" "$place/examples"

built() { # words for cargo; prints "NAME PATH" of each program of haul-mpi
    MPICC=mpicc.mpich cargo "$@" --workspace --locked --config "$own" --message-format=json-render-diagnostics | python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["executable"] and "/haul-mpi/" in message["manifest_path"]:
        print(message["target"]["kind"][0], message["target"]["name"], message["executable"])
    if message["reason"] == "build-finished" and not message["success"]:
        sys.exit(1)
'
}
programs=$(built build --bin haul --bin haul-mpi --example exchange && built test --no-run --test exchange --test job)
echo "$programs" | while read -r kind name path; do
    case "$kind" in
    bin) cp "$path" "$place/$name" ;;
    example) cp "$path" "$place/examples/$name" ;;
    test) cp "$path" "$place/deps/$name" ;;
    esac
done
cp target/debug/haul "$place/haul"
for program in haul-mpi examples/exchange; do
    if ! ldd "$place/$program" | grep -q "libmpich\.so"; then
        echo "mpich: $program is not linked with MPICH: cargo clean -p mpi-sys, and try again" >&2
        exit 1
    fi
done

run() { # program, tests; all of exchange, if none is named
    program=$1
    shift
    listed=$("$place/deps/$program" --list)
    for name in "$@"; do
        echo "$listed" | grep -qx "$name: test" || { echo "mpich: $program has no test $name" >&2; exit 1; }
    done
    (cd crates/haul-mpi && HAUL_TEST_MPIRUN=mpirun.mpich CARGO_MANIFEST_DIR=$PWD "$place/deps/$program" --exact "$@")
}
# As run.py does: what fails beside other work runs once more, and is named.
steadily() {
    run "$@" && return
    echo "mpich: $1 failed; once more" >&2
    run "$@" || { echo "mpich: $1 failed twice" >&2; exit 1; }
    echo "mpich: $1 is unsteady: it failed and then passed" >&2
}
steadily exchange
steadily job \
    ranks_copy_sync_check_and_move_one_tree \
    the_job_ends_with_the_most_severe_code_and_names_what_failed \
    a_killed_rank_ends_the_job_and_others_resume_it
