//! What a client requests before it has the answer to what it requested last.

use std::collections::HashSet;

use haul_core::store::Store;

use super::*;
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

/// The ids of what is held back, and how many of the wanted kind have come.
type Seen = (HashSet<u32>, usize);

/// An agent whose answers to requests of the kind `held` are held back until so many of the kind `wanted` have come.
fn withholding(held: u8, count: usize, wanted: u8) -> Pipes {
    let agent = Agent::new(options(), 8, join::Joining::default(), log::Log::default());
    let ((mut to_agent, requests), (mut to_client, answers)) = (direction(), direction());
    let ((input, from_client), (output, from_agent)) = (UnixStream::pair().expect("a pair"), UnixStream::pair().expect("a pair"));
    std::thread::spawn(move || agent.serve_fds(requests.into(), output.into()));
    let (mut from_client, mut from_agent) = (Plain(from_client), Plain(from_agent));
    let seen: Arc<(Mutex<Seen>, Condvar)> = Arc::default();
    let asked = seen.clone();
    std::thread::spawn(move || {
        while let Ok(Some(frame)) = from_client.receive() {
            let mut seen = lock(&asked.0);
            if frame.kind == held {
                seen.0.insert(frame.id);
            }
            seen.1 += usize::from(frame.kind == wanted);
            drop(seen);
            asked.1.notify_all();
            to_agent.send(head(frame.kind, frame.id), &[frame.body().0]).expect("sent");
        }
    });
    std::thread::spawn(move || {
        let mut magic = vec![0; ops::MAGIC.len()];
        from_agent.0.read_exact(&mut magic).expect("it greets");
        std::io::Write::write_all(&mut to_client.0, &magic).expect("sent");
        while let Ok(Some(frame)) = from_agent.receive() {
            let ids = lock(&seen.0);
            if ids.0.contains(&frame.id) {
                drop(seen.1.wait_timeout_while(ids, BOUND, |ids| ids.1 < count).expect("no panic"));
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

fn host(path: &[u8], pipes: impl Fn() -> Pipes + Send + Sync + 'static) -> Host {
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
    Host::connect(Box::new(move |_| Ok(pipes())), options, "testhost".into(), path).expect("connected")
}

/// The engine reads a large file in steps, of which the first are short: it must not wait for each of them over a long network.
#[test]
fn a_short_read_at_the_start_of_an_announced_range_requests_what_follows() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("large"), vec![7; 8 << 20]).expect("written");
    let path = place.path().as_os_str().as_encoded_bytes();
    // All of the file, in requests of 256 KiB.
    let host = host(path, || withholding(ops::READ, 32, ops::READ));
    let store = host.open(path, RootOptions { keep_modes: true, ..RootOptions::default() }).expect("opened");
    let entry = store.stat(&Name::new(&Dir::root(), b"large"), MetaMask::NONE).expect("it is there");
    let source = store.open(&entry, false).expect("opened");
    source.hint_sequential(0..8 << 20);
    let mut bytes = Vec::new();
    source.read(0..256 << 10).expect("a reader").read_to_end(&mut bytes).expect("answered");
    assert_eq!((bytes.len(), bytes.iter().all(|byte| *byte == 7)), (256 << 10, true));
}

#[test]
fn a_root_is_listed_while_it_is_looked_at() {
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(place.path().join("file"), b"content").expect("written");
    let path = place.path().as_os_str().as_encoded_bytes();
    let host = host(path, || withholding(ops::STAT, 1, ops::LIST));
    let store = host.open(path, RootOptions { keep_modes: true, ..RootOptions::default() }).expect("opened");
    store.stat(&Name::of(&Dir::root()), MetaMask::NONE).expect("answered");
    let names = || {
        let mut names = Vec::new();
        let mut each = |entry: Result<Entry>| {
            names.push(entry.expect("listed").name.leaf.to_vec());
            haul_core::store::Flow::Go
        };
        store.list(&Dir::root(), &mut each).expect("listed");
        names
    };
    assert_eq!(names(), [b"file"]);
    // The next listing is a new one.
    std::fs::remove_file(place.path().join("file")).expect("removed");
    assert!(names().is_empty());
}

#[test]
fn a_directory_is_opened_while_it_is_made() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (above, new) = (place.path().as_os_str().as_encoded_bytes(), place.path().join("new"));
    // Two roots are opened with the greeting.
    let host = host(above, || withholding(ops::MAKE_PATH, 3, ops::ROOT));
    let path = new.as_os_str().as_encoded_bytes();
    host.make_dir(path, false).expect("answered");
    host.open(path, RootOptions { keep_modes: true, ..RootOptions::default() }).expect("opened");
    assert!(new.is_dir());
}
