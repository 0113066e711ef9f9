//! The file that `./release` builds is at home on a system that has nothing: no C library, no configuration of names. Needs that file,
//! and root for chroot and network namespaces.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use haul_test::compare::{What, assert_same};
use haul_test::link::{Link, Options};
use haul_test::tree::Tree;

/// Longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

fn released() -> PathBuf {
    let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from(target), PathBuf::from);
    let file = target.join(format!("{}-unknown-linux-musl/release/haul", std::env::consts::ARCH));
    assert!(file.exists(), "{} is missing: run ./release first", file.display());
    file
}

/// A directory with the program and nothing else in it.
fn bare() -> tempfile::TempDir {
    let place = super::directory();
    // By a process of its own: a descriptor of this one that writes could be another test's child's when the program is started.
    let copied = Command::new("cp").arg(released()).arg(place.path().join("haul")).status().expect("cp runs");
    assert!(copied.success());
    place
}

/// Makes a command run in the directory as its root.
fn confine(command: &mut Command, root: &Path) {
    use std::os::unix::process::CommandExt;
    let root = root.to_owned();
    // SAFETY: between fork and exec two system calls are made, on what was allocated before.
    unsafe { command.pre_exec(move || Ok(rustix::process::chroot(&root).and_then(|()| rustix::process::chdir("/"))?)) };
    command.env_clear().env("HAUL_STATE_DIR", "/state");
}

#[track_caller]
fn succeeds(ran: &Output) {
    assert!(ran.status.success(), "{}\n{}\n{}", ran.status, String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn it_asks_for_no_dynamic_linker() {
    let file = fs::read(released()).expect("read");
    let number = |at: usize, bytes: usize| file[at..at + bytes].iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
    let (start, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let types: Vec<usize> = (0..count).map(|i| number(start + i * size, 4)).collect();
    assert!(types.contains(&1) && !types.contains(&3), "segments (1: to load, 3: interpreter): {types:?}");
    assert!(file.len() <= 20 << 20, "{} bytes", file.len());
}

#[test]
fn it_copies_a_tree_in_an_empty_root() {
    let place = bare();
    let tree = Tree::new(place.path().join("src")).expect("made");
    tree.build("a=5:0640 empty=0 d/b=300K:0444 d/e/c=3M d/e/f/g=70K").expect("made");
    let mut command = Command::new("/haul");
    // Files and directories: attributes of links and special files are set through /proc, which is not there either.
    command.args(["cp", "-rptgo", "/src/", "/dst"]);
    confine(&mut command, place.path());
    succeeds(&command.output().expect("it starts"));
    assert_same(tree.path(), &place.path().join("dst"), What::ALL);
}

#[test]
fn users_and_groups_are_asked_of_getent() {
    let place = bare();
    let bin = place.path().join("bin");
    fs::create_dir(&bin).expect("made");
    let lines = "case \"$1 $3\" in\n\"passwd far.user\") echo far.user:x:70001:70002::/:/bin/sh ;;\n\"group far.group\") echo far.group:x:70003: ;;\n*) exit 2 ;;\nesac\n";
    fs::write(bin.join("getent"), format!("#!/bin/sh\n{lines}")).expect("written");
    fs::set_permissions(bin.join("getent"), fs::Permissions::from_mode(0o755)).expect("set");
    fs::write(place.path().join("file"), "x").expect("written");
    let ran = Command::new(released())
        .env_clear()
        .env("PATH", &bin)
        .env("HAUL_STATE_DIR", place.path().join("state"))
        .args(["cp", "--chown", "far.user:far.group"])
        .args([place.path().join("file"), place.path().join("copy")])
        .output();
    succeeds(&ran.expect("it starts"));
    let copy = place.path().join("copy").metadata().expect("copied");
    assert_eq!((copy.uid(), copy.gid()), (70001, 70003));
}

/// Answers for `store.b.test` and knows no other name.
fn answer_names(socket: &UdpSocket, address: Ipv4Addr) {
    let mut packet = [0; 512];
    while let Ok((length, asker)) = socket.recv_from(&mut packet) {
        let question = &packet[12..length];
        // Up to the name's end, its type and its class.
        let end = question.iter().position(|byte| *byte == 0).expect("a name") + 1;
        let (known, kind) = (question[..end].eq_ignore_ascii_case(b"\x05store\x01b\x04test\0"), question[end + 1]);
        let found = known && kind == 1;
        let mut reply = packet[..2].to_vec();
        reply.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(found), 0, 0, 0, 0]);
        reply.extend(&question[..end + 4]);
        if found {
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
            reply.extend(address.octets());
        }
        socket.send_to(&reply, asker).expect("sent");
    }
}

#[test]
fn hosts_are_found_by_etc_hosts_by_search_domains_and_by_the_second_server() {
    let link = Link::new(Options::default()).expect("network namespaces can be made: root");
    let far = link.far();
    let names = far.inside(|| UdpSocket::bind((far.address(), 53))).expect("entered").expect("bound");
    let listener = far.inside(|| TcpListener::bind((far.address(), 0))).expect("entered").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let address = far.address();
    std::thread::spawn(move || answer_names(&names, address));
    let (seen, hosts) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a whole request");
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request).to_lowercase();
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_string();
            // Before it is answered: a program that has ended has been seen.
            if seen.send(host).is_err() {
                return;
            }
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").expect("answered");
        }
    });
    let place = bare();
    fs::create_dir(place.path().join("etc")).expect("made");
    fs::write(place.path().join("etc/hosts"), format!("{address} listed\n")).expect("written");
    // Nobody answers at the first.
    let near = link.near().address();
    let servers = format!("search a.test b.test\nnameserver {near}\nnameserver {address}\noptions timeout:20 attempts:1\n");
    fs::write(place.path().join("etc/resolv.conf"), servers).expect("written");
    for name in ["listed", "store", "store.b.test"] {
        let mut command = link.near().command("/haul");
        command.args(["ls", "s3://bucket", "--no-sign-request", "--endpoint-url", &format!("http://{name}:{port}")]);
        confine(&mut command, place.path());
        let ran = command.output().expect("it starts");
        let err = String::from_utf8_lossy(&ran.stderr).into_owned();
        let host = hosts.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{name} was not reached: {err}"));
        assert_eq!(host, format!("{name}:{port}"), "{err}");
        while hosts.try_recv().is_ok() {}
    }
}
