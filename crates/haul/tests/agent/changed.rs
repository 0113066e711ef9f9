//! Changed files of which only a part moves, compressed ones, standard input, and what stays on one host.

use std::fs;
use std::io::Write;
use std::path::Path;

use haul_core::hash::Algorithm;

use crate::support::{BOUND, World};

/// Bytes that nothing compresses and that have nothing twice, the same in each run.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 32);
    let mut n = seed << 32;
    while bytes.len() < length {
        let mut hasher = Algorithm::Blake3.begin();
        hasher.update(&n.to_le_bytes());
        bytes.extend_from_slice(&hasher.finish());
        n += 1;
    }
    bytes.truncate(length);
    bytes
}

const LARGE: usize = 24 << 20;

/// Ten bytes more in front, and a hundred others in three places.
fn changed(old: &[u8]) -> Vec<u8> {
    let mut new = b"0123456789".to_vec();
    new.extend_from_slice(old);
    for at in [LARGE / 5, LARGE / 2, LARGE - 200] {
        new[at..at + 100].copy_from_slice(&noise(99, 100));
    }
    new
}

fn put(path: impl AsRef<Path>, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
}

#[test]
fn of_a_changed_file_only_the_changes_move() {
    for (source, target) in [("src/f", "testhost:~/there/f"), ("testhost:~/src/f", "there/f")] {
        for flags in ["", "--verify", "-W", "--no-direct"] {
            let w = World::new("");
            w.tree("src: there:");
            let old = noise(1, LARGE);
            let new = changed(&old);
            put(w.join("src/f"), &new);
            put(w.join("there/f"), &old);
            let ended = w.haul(&format!("cp --json {flags} {source} {target}")).run().code(0);
            assert!(w.content("there/f") == new, "{source} {flags}");
            let moved = ended.number("bytes");
            match flags {
                "-W" => assert_eq!((moved, ended.number("reused_bytes")), (new.len() as u64, 0)),
                _ => {
                    assert!(moved < LARGE as u64 / 20, "{source} {flags}: {moved} bytes moved");
                    assert_eq!(moved + ended.number("reused_bytes"), new.len() as u64);
                }
            }
            w.assert_clean("there");
        }
    }
}

#[test]
fn a_file_that_has_nothing_in_common_moves_whole() {
    let w = World::new("");
    w.tree("src: there:");
    put(w.join("src/f"), &noise(1, 3 << 20));
    put(w.join("there/f"), &noise(2, 3 << 20));
    let ended = w.haul("cp --json src/f testhost:~/there/f").run().code(0);
    assert!(w.content("there/f") == w.content("src/f"));
    assert_eq!((ended.number("bytes"), ended.number("reused_bytes")), (3 << 20, 0));
}

#[test]
fn what_is_compressed_on_the_way_is_the_same() {
    for (source, target) in [("src/", "testhost:~/there"), ("testhost:~/src/", "there")] {
        let w = World::new("");
        w.tree("src: a=5 d/b=900K d/e=0");
        put(w.join("src/zeros"), &vec![0; 5 << 20]);
        put(w.join("src/noise"), &noise(3, 5 << 20));
        put(w.join("src/words"), &b"time lat lon pressure\n".repeat(200_000));
        w.haul(&format!("cp -az {source} {target}")).run().code(0);
        w.haul(&format!("cp -az --no-direct {source} {target}2")).run().code(0);
        for there in ["there", "there2"] {
            for name in ["a", "d/b", "d/e", "zeros", "noise", "words"] {
                assert!(w.content(&format!("{there}/{name}")) == w.content(&format!("src/{name}")), "{target}: {name}");
            }
        }
    }
}

#[test]
fn a_copy_on_one_host_stays_there() {
    let w = World::new("");
    w.tree("src: a=5 d/b=900K");
    put(w.join("src/large"), &noise(4, 9 << 20));
    let ended = w.haul("cp -a testhost:~/src/ testhost:~/there").run().code(0).says("directly between the hosts");
    assert!(w.content("there/large") == w.content("src/large"), "{ended}");
    assert_eq!(w.server.logins(), 1);
    w.haul("cp -a --verify -I testhost:~/src/ testhost:~/there").run().code(0);
    w.haul("check -c testhost:~/src/ testhost:~/there").run().code(0);
}

#[test]
fn standard_input_becomes_a_file_of_a_host() {
    let w = World::new("");
    w.tree("there:");
    let content = noise(5, 3 << 20);
    for (flags, name) in [("--no-agent", "plain"), ("", "agent"), ("--verify", "verified")] {
        let haul = if flags == "--no-agent" {
            w.plain(&format!("cp {flags} - testhost:~/there/{name}"))
        } else {
            w.haul(&format!("cp {flags} - testhost:~/there/{name}"))
        };
        let mut running = haul.piped();
        let mut input = running.input();
        let bytes = content.clone();
        let feed = std::thread::spawn(move || input.write_all(&bytes));
        running.wait(BOUND).code(0);
        feed.join().expect("no panic").expect("all of it is taken");
        assert!(w.content(&format!("there/{name}")) == content, "{name}");
    }
    w.assert_clean("there");
    w.haul("cp - testhost:~/there").run().code(1).says("is a directory");
    w.haul("cp - testhost:~/not/there").run().says("--mkpath");
}
