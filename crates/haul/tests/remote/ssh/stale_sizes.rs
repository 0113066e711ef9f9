//! A server that says of a file what it was a moment ago, or that has less of it than it confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use haul_test::program::Ended;
use haul_test::rogue::{Answer, Asked, Rogue, Thing, attrs, dir, kind, packet, string};
use haul_test::scratch::Scratch;

const SETSTAT: u8 = 9;
const FSETSTAT: u8 = 10;
const RENAME: u8 = 18;
const REMOVE: u8 = 13;
/// A round trip at which one file goes through several sessions.
const FAR: Duration = Duration::from_millis(30);
const HANDLE: &[u8] = b"the file";
const SIZE: u64 = 6 << 20;

/// What was asked of a server.
#[derive(Default)]
struct Seen {
    /// How often the file was opened.
    opened: AtomicUsize,
    /// Whether its size was set.
    sized: AtomicBool,
}

/// A server far away that takes one file: while it is open it has 5 bytes, and then `finally`.
fn server(finally: u64) -> (Rogue, Arc<Seen>) {
    let noted = Arc::new(Seen::default());
    let (seen, size) = (noted.clone(), AtomicU64::new(5));
    let status = |asked: &Asked<'_>, code: u32| {
        let body = [&code.to_be_bytes()[..], &string(b""), &string(b"")].concat();
        Answer::Raw(packet(kind::STATUS, asked.id, &body))
    };
    let server = Rogue::new(dir([]), move |asked| match asked.kind {
        kind::OPEN => {
            seen.opened.fetch_add(1, Ordering::Relaxed);
            Answer::Raw(packet(kind::HANDLE, asked.id, &string(HANDLE)))
        }
        kind::WRITE | RENAME | REMOVE | SETSTAT => status(asked, 0),
        kind::CLOSE => {
            // Directories have other handles.
            if asked.body == string(HANDLE) {
                size.store(finally, Ordering::Relaxed);
            }
            status(asked, 0)
        }
        FSETSTAT => {
            // Behind the handle: the flags, of which the first is the size's.
            let flags =
                asked.body.get(4 + HANDLE.len()..8 + HANDLE.len()).and_then(|flags| flags.try_into().ok()).map_or(0, u32::from_be_bytes);
            seen.sized.fetch_or(flags & 1 != 0, Ordering::Relaxed);
            status(asked, 0)
        }
        kind::FSTAT | kind::LSTAT | kind::STAT
            if seen.opened.load(Ordering::Relaxed) > 0 && (asked.kind == kind::FSTAT || has(asked.body, b".haul-")) =>
        {
            let there = Thing::Claim(size.load(Ordering::Relaxed), Vec::new());
            Answer::Raw(packet(kind::ATTRS, asked.id, &attrs(&there)))
        }
        kind::REALPATH => {
            std::thread::sleep(FAR);
            Answer::Honest
        }
        _ => Answer::Honest,
    });
    (server.expect("bash is there, and a port"), noted)
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

fn put(finally: u64, code: i32) -> (Ended, Arc<Seen>) {
    let (server, seen) = server(finally);
    let s = Scratch::with("src: large=6M");
    let ended = s.haul("cp --chunk-size 1M src/ testhost:/").args(["--no-agent", "-e"]).arg(server.command()).alone().ends(code);
    (ended, seen)
}

#[test]
fn a_file_that_was_written_to_its_end_gets_no_other_size() {
    let (_, seen) = put(SIZE, 0);
    assert!(!seen.sized.load(Ordering::Relaxed), "its size was set: a server may empty it then");
    // It offers no sync of files: it may empty one that is opened again.
    assert_eq!(seen.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn a_server_that_has_less_than_it_confirmed_is_named() {
    let (ended, seen) = put(SIZE - 7, 23);
    assert!(!seen.sized.load(Ordering::Relaxed), "what is missing was filled with zeros");
    ended.err_has("the server confirmed 6291456 bytes and has 6291449 bytes");
}
