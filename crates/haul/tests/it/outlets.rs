//! Standard output, devices and pipes as destinations.

use std::os::unix::fs::FileTypeExt;

use std::process::Command;

use haul_test::program::{Program, haul};

use crate::support::World;

/// A line of bash, in which `haul` is the program.
fn bash(w: &World, line: &str) -> Program {
    let line = format!("haul() {{ {} \"$@\"; }}; {line}", haul().display());
    w.program(Command::new("bash"), "-c").arg(line).env("W", &w.work)
}

#[test]
fn standard_output_receives_the_files_in_their_order_and_nothing_else() {
    let w = World::new("s: b=5M a=300K none=0 d/e=1K");
    w.symlink("a", "s/link");
    let all = |names: &[&str]| names.iter().flat_map(|name| w.read(format!("s/{name}"))).collect::<Vec<u8>>();
    for (line, names) in [
        ("cp s/b s/a -", &["b", "a"][..]),
        ("cp -i --stat s/a -", &["a"]),
        ("cp s/none -", &["none"]),
        ("cp -a s/link s/d/e -", &["a", "d/e"]),
    ] {
        assert!(w.haul(line).succeeds().bytes == all(names), "{line}");
    }
    let ran = w.haul("cp s/a -").succeeds();
    assert!(ran.err.contains("to standard output") && ran.err.contains("Created:     1 file"), "{}", ran.err);
    assert!(w.haul("cp -n s/a -").succeeds().bytes.is_empty());
    assert!(!w.has("-"));
}

#[test]
fn what_standard_output_cannot_do_is_refused() {
    let w = World::new("s: a=300K d/e=1K");
    for (line, words) in [
        ("cp --verify s/a -", "cannot be read back"),
        ("cp --remove-source-files s/a -", "cannot be read back"),
        ("cp s/d -", "is a directory"),
        ("cp s/d/ -", "is a directory"),
        ("cp s/none -", "s/none"),
    ] {
        assert!(w.haul(line).run().says(words).bytes.is_empty(), "{line}");
    }
    w.haul("cp --json s/a -").ends(1).err_has("--json");
    let ran = w.haul("cp s/none s/a -").run();
    assert!(ran.bytes.is_empty(), "a part is missing: {}", ran.err);
}

#[test]
fn a_pipe_is_a_source_of_bytes_and_one_whose_reader_has_gone_is_an_error() {
    let w = World::new("s: a=3M");
    w.sh("mkfifo pipe");
    let writer = std::thread::spawn({
        let (pipe, content) = (w.path("pipe"), w.read("s/a"));
        move || std::fs::write(pipe, content).expect("write to the pipe")
    });
    assert!(w.haul("cp pipe -").succeeds().bytes == w.read("s/a"));
    writer.join().expect("written");
    let (reader, gone) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ran = w.haul("cp s/a -").output(std::os::fd::OwnedFd::from(gone).into()).run();
    assert!(ran.err.contains("the reader has closed the pipe"), "{}", ran.err);
    ran.code(23);
}

#[test]
fn a_device_takes_the_bytes_and_stays_a_device() {
    let w = World::new("s: f=300K d/g=1K");
    for command in ["cp s/f null", "cp -I s/f null", "sync s/f null", "sum -o null s", "cp --force -n s/f null", "cp s/f s/d/g null"] {
        if !w.has("null") {
            w.sh("mknod null c 1 3");
        }
        w.haul(command).succeeds();
        let there = w.meta("null");
        assert!(there.file_type().is_char_device(), "{command}");
    }
    // Nothing could be verified there, and a source must not go.
    for command in ["mv s/f null", "cp --verify s/f null", "cp --remove-source-files s/f null", "cp s null"] {
        w.haul(command).ends(1);
        assert!(w.has("s/f"));
        assert!(w.meta("null").file_type().is_char_device(), "{command}");
    }
    w.haul("cp --force s/f null").succeeds();
    assert_eq!(w.read("null"), w.read("s/f"));
}

#[test]
fn a_block_device_is_refused() {
    let w = World::new("s: f=1K");
    // No driver has this number: opening it would fail.
    w.sh("mknod disk b 241 0");
    w.haul("cp s/f disk").ends(1).err_has("block device");
    assert!(w.meta("disk").file_type().is_block_device());
}

#[test]
fn a_pipe_takes_files_one_after_the_other() {
    let w = World::new("s: f=300K d/g=1K");
    w.sh("mkfifo pipe");
    let reader = std::thread::spawn({
        let pipe = w.path("pipe");
        move || std::fs::read(pipe).expect("read the pipe")
    });
    w.haul("cp s/f s/d/g s/f pipe").succeeds();
    let all = [w.read("s/f"), w.read("s/d/g"), w.read("s/f")].concat();
    assert!(reader.join().expect("read") == all, "the reader saw an end between two files");
    assert!(w.meta("pipe").file_type().is_fifo());
}

#[test]
fn a_reader_that_leaves_between_two_files_ends_it() {
    let w = World::new("s: a=10 b=20");
    w.sh("mkfifo pipe");
    let reader = std::thread::spawn({
        let pipe = w.path("pipe");
        move || {
            let mut first = [0; 1];
            std::io::Read::read_exact(&mut std::fs::File::open(pipe).expect("a writer comes"), &mut first).expect("a byte");
        }
    });
    // The second file is a pipe itself, which gives nothing before the reader has gone.
    w.sh("mkfifo slow");
    let writer = std::thread::spawn({
        let slow = w.path("slow");
        move || {
            let mut slow = std::fs::File::options().write(true).open(slow).expect("a reader comes");
            reader.join().expect("read");
            std::io::Write::write_all(&mut slow, b"late").expect("written");
        }
    });
    w.haul("cp s/a slow s/b pipe").ends(23).err_has("the reader has closed the pipe");
    writer.join().expect("written");
}

/// The shell's names of open descriptors: a file behind one is written and read through it, never replaced.
#[test]
fn open_descriptors_by_their_paths_are_what_a_dash_is() {
    let w = World::new("s: f=300K");
    let before = std::fs::symlink_metadata("/dev/stdout").expect("it is there").file_type();
    for (line, from) in [
        ("haul cp s/f /dev/stdout > out", "out"),
        ("cd /dev; haul cp $W/s/f stdout > $W/out", "out"),
        ("haul cp s/f /dev/fd/3 3> out", "out"),
        ("haul cp s/f /proc/self/fd/3 3> out", "out"),
        ("haul cp --force s/f //dev/./stdout > out", "out"),
        ("haul cp /dev/stdin out < s/f", "out"),
        ("haul cp /dev/fd/3 out 3< s/f", "out"),
        ("haul cp -a <(cat s/f) out", "out"),
        ("haul cp <(cat s/f) - > out", "out"),
        ("haul cp --verify <(cat s/f) out", "out"),
    ] {
        bash(&w, line).succeeds();
        assert!(w.read(from) == w.read("s/f"), "{line}");
        assert!(std::fs::symlink_metadata(w.path(from)).expect("it is there").is_file(), "{line}");
        std::fs::remove_file(w.path(from)).expect("removed");
        assert_eq!(std::fs::symlink_metadata("/dev/stdout").expect("it is there").file_type(), before, "{line}");
    }
    for line in ["mv /dev/stdin out", "cp s/f /dev/fd/77", "cp /dev/fd/77 out", "mv s/f /dev/stdout"] {
        let ran = w.haul(line).run();
        assert!(!ran.status.success(), "{line}");
    }
    assert!(w.has("s/f") && !w.has("out"));
}

#[test]
fn a_special_file_that_is_named_is_read_or_refused() {
    let w = World::new("s: f=300K d/");
    w.sh(
        "mkfifo s/pipe; ln -s pipe s/link; mknod s/null c 1 3; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s/sock')\"",
    );
    for line in ["cp s/pipe d/", "cp s/pipe d/other", "cp -L s/link d/linked", "cp --size-only s/pipe s/d/"] {
        w.sh("mkdir -p d");
        let writer = std::thread::spawn({
            let (pipe, content) = (w.path("s/pipe"), w.read("s/f"));
            move || std::fs::write(pipe, content).expect("write to the pipe")
        });
        w.haul(line).succeeds();
        writer.join().expect("written");
    }
    for name in ["d/pipe", "d/other", "d/linked", "s/d/pipe"] {
        assert!(w.read(name) == w.read("s/f"), "{name}");
    }
    w.haul("cp -n s/pipe d/new").succeeds();
    w.haul("cp s/null d/empty").succeeds();
    assert!(w.read("d/empty").is_empty());
    w.haul("cp s/sock d/").ends(23).err_has("special file");
    w.haul("cp --remove-source-files s/pipe d/").ends(23).err_has("special file");
    w.haul("cp -a s/pipe d/again").succeeds();
    assert!(w.meta("d/again").file_type().is_fifo());
    w.haul("cp s/ tree").succeeds();
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let w = World::new("s: f=3K");
    for line in ["haul cat s/f >&-", "haul sum s >&-", "haul cp s/f - >&-"] {
        let ran = bash(&w, line).run().err_has("Bad file descriptor");
        assert!(!ran.status.success(), "{line}");
    }
}
