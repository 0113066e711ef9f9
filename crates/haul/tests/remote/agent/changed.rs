//! Changed files of which only a part moves, compressed ones, standard input, and what stays on one host.

use std::io::Write;

use haul_core::hash::Algorithm;

use crate::agent::support::World;

/// Bytes that nothing compresses and that have nothing twice, the same in each run.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let hash = |n: u64| {
        let mut hasher = Algorithm::Blake3.begin();
        hasher.update(&((seed << 32) + n).to_le_bytes());
        hasher.finish()
    };
    (0..).flat_map(hash).take(length).collect()
}

const LARGE: usize = 24 << 20;

/// Ten bytes more in front, and a hundred others in three places.
fn changed(old: &[u8]) -> Vec<u8> {
    let mut new = [b"0123456789", old].concat();
    for at in [LARGE / 5, LARGE / 2, LARGE - 200] {
        new[at..at + 100].copy_from_slice(&noise(99, 100));
    }
    new
}

#[test]
#[ignore = "full"]
fn of_a_changed_file_only_the_changes_move() {
    let old = noise(1, LARGE);
    let new = changed(&old);
    for (source, target) in [("src/f", "testhost:~/there/f"), ("testhost:~/src/f", "there/f")] {
        for flags in ["", "--verify", "-W", "--no-direct"] {
            let w = World::new("");
            w.write("src/f", &new);
            w.write("there/f", &old);
            let ended = w.haul(&format!("cp --json {flags} {source} {target}")).ends(0);
            assert!(w.read("there/f") == new, "{source} {flags}");
            let (moved, reused) = (ended.number("bytes"), ended.number("reused_bytes"));
            assert_eq!(moved + reused, new.len() as u64);
            assert!(if flags == "-W" { reused == 0 } else { moved < LARGE as u64 / 20 }, "{source} {flags}: {moved} bytes moved");
            w.assert_clean("there");
        }
    }
}

/// Long enough that copying begins before all of it is compared.
#[test]
#[ignore = "full"]
fn of_a_long_file_only_the_changes_move() {
    let part = noise(1, 1 << 20);
    let old: Vec<u8> =
        (0..96_u8).flat_map(|turn| part.iter().map(move |byte| byte.wrapping_mul(2 * turn + 1).wrapping_add(turn))).collect();
    // Ten bytes more, a hundred others far behind, twelve MiB less, and the end in front of what was before it.
    let (middle, end) = old[52 << 20..].split_at(30 << 20);
    let mut new = [b"0123456789", &old[..40 << 20], end, middle].concat();
    new[30 << 20..][..100].copy_from_slice(&noise(99, 100));
    for (source, target) in [("src/f", "testhost:~/there/f"), ("testhost:~/src/f", "there/f")] {
        let w = World::new("");
        w.write("src/f", &new);
        w.write("there/f", &old);
        let ended = w.haul(&format!("cp --json {source} {target}")).ends(0);
        assert!(w.read("there/f") == new, "{source}");
        let (moved, reused) = (ended.number("bytes"), ended.number("reused_bytes"));
        assert_eq!(moved + reused, new.len() as u64);
        assert!(moved < 4 << 20, "{source}: {moved} bytes moved");
        w.assert_clean("there");
    }
}

#[test]
fn what_is_compressed_on_the_network_is_the_same() {
    for (source, target) in [("src/", "testhost:~/there"), ("testhost:~/src/", "there")] {
        let w = World::new("src: a=5 d/b=900K d/e=0");
        w.write("src/zeros", vec![0; 5 << 20]);
        w.write("src/noise", noise(3, 5 << 20));
        w.write("src/words", b"time lat lon pressure\n".repeat(200_000));
        w.haul(&format!("cp -az {source} {target}")).ends(0);
        w.haul(&format!("cp -az --no-direct {source} {target}2")).ends(0);
        for there in ["there", "there2"] {
            for name in ["a", "d/b", "d/e", "zeros", "noise", "words"] {
                assert!(w.read(format!("{there}/{name}")) == w.read(format!("src/{name}")), "{target}: {name}");
            }
        }
    }
}

#[test]
fn a_copy_on_one_host_stays_there() {
    let w = World::new("src: a=5 d/b=900K");
    w.write("src/large", noise(4, 9 << 20));
    let ended = w.haul("cp -a testhost:~/src/ testhost:~/there").ends(0).says("directly between the hosts");
    assert!(w.read("there/large") == w.read("src/large"), "{ended}");
    assert_eq!(w.server.logins(), 1);
    w.haul("cp -a --verify -I testhost:~/src/ testhost:~/there").ends(0);
    w.haul("check -c testhost:~/src/ testhost:~/there").ends(0);
}

#[test]
fn standard_input_becomes_a_file_of_a_host() {
    let w = World::new("there:");
    let content = noise(5, 3 << 20);
    for (flags, name) in [("--no-agent", "plain"), ("", "agent"), ("--verify", "verified")] {
        let words = format!("cp {flags} - testhost:~/there/{name}");
        let mut running = if flags == "--no-agent" { w.plain(&words) } else { w.haul(&words) }.piped();
        let mut input = running.input();
        let bytes = content.clone();
        let feed = std::thread::spawn(move || input.write_all(&bytes));
        running.wait().code(0);
        feed.join().expect("no panic").expect("all of it is taken");
        assert!(w.read(format!("there/{name}")) == content, "{name}");
    }
    w.assert_clean("there");
    w.haul("cp - testhost:~/there").ends(1).says("is a directory");
    w.haul("cp - testhost:~/not/there").run().says("--mkpath");
}
