//! What a client requests of a file before it has read anything.

use std::collections::HashSet;

use haul_core::store::Store;

use super::*;
use crate::agent::frame::head;
use crate::agent::link::Transport;
use crate::agent::{Host, Pipes, RootOptions, SessionOptions};

struct Unowned;

impl Transport for Unowned {
    fn end(&mut self) {}
}

/// One direction: where to write, and where to read.
fn direction() -> (Plain<Bounded>, UnixStream) {
    let (to, from) = UnixStream::pair().expect("a pair");
    (Plain(Bounded::new(to.into(), BOUND, Arc::new(AtomicBool::new(false))).expect("bounded")), from)
}

/// An agent that answers no READ before it has so many of them.
fn withholding(reads: usize) -> Pipes {
    let agent = Agent::new(options(), 8, join::Joining::default(), log::Log::default());
    let ((mut to_agent, requests), (mut to_client, answers)) = (direction(), direction());
    let ((input, from_client), (output, from_agent)) = (UnixStream::pair().expect("a pair"), UnixStream::pair().expect("a pair"));
    std::thread::spawn(move || agent.serve_fds(requests.into(), output.into()));
    let (mut from_client, mut from_agent) = (Plain(from_client), Plain(from_agent));
    let seen: Arc<(Mutex<HashSet<u32>>, Condvar)> = Arc::default();
    let asked = seen.clone();
    std::thread::spawn(move || {
        while let Ok(Some(frame)) = from_client.receive() {
            if frame.kind == ops::READ {
                lock(&asked.0).insert(frame.id);
                asked.1.notify_all();
            }
            to_agent.send(head(frame.kind, frame.id), &[frame.body().0]).expect("sent");
        }
    });
    std::thread::spawn(move || {
        let mut magic = vec![0; ops::MAGIC.len()];
        from_agent.0.read_exact(&mut magic).expect("it greets");
        std::io::Write::write_all(&mut to_client.0, &magic).expect("sent");
        while let Ok(Some(frame)) = from_agent.receive() {
            let ids = lock(&seen.0);
            if ids.contains(&frame.id) {
                drop(seen.1.wait_timeout_while(ids, BOUND, |ids| ids.len() < reads).expect("no panic"));
            } else {
                drop(ids);
            }
            if to_client.send(head(frame.kind, frame.id), &[frame.body().0]).is_err() {
                return;
            }
        }
    });
    Pipes { input: input.into(), output: answers.into(), transport: Box::new(Unowned) }
}

/// The engine reads a large file in steps, of which the first are short: it must not wait for each of them over a long network.
#[test]
fn a_short_read_at_the_start_of_an_announced_range_requests_what_follows() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("large"), vec![7; 8 << 20]).expect("written");
    let options = SessionOptions {
        sessions: 1,
        streams: None,
        greeting: BOUND,
        answer_timeout: Some(BOUND / 2),
        version: "0",
        compress: false,
        direct: None,
        site: Site::default(),
        widen: None,
    };
    let path = place.path().as_os_str().as_encoded_bytes();
    // All of the file, in requests of 256 KiB.
    let host = Host::connect(Box::new(|_| Ok(withholding(32))), options, "testhost".into(), path).expect("connected");
    let store = host.open(path, RootOptions { keep_modes: true, ..RootOptions::default() }).expect("opened");
    let entry = store.stat(&Name::new(&Dir::root(), b"large"), MetaMask::NONE).expect("it is there");
    let source = store.open(&entry, false).expect("opened");
    source.goes_on(0..8 << 20);
    let mut bytes = Vec::new();
    source.read(0..256 << 10).expect("a reader").read_to_end(&mut bytes).expect("answered");
    assert_eq!((bytes.len(), bytes.iter().all(|byte| *byte == 7)), (256 << 10, true));
}
