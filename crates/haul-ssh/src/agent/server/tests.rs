use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;

use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::error::Remedy;

use super::*;
use crate::agent::RootOptions;
use crate::agent::direct::LISTENING;
use crate::agent::host::USUAL;
use crate::agent::measure::{Load, MadeUp, Tally};
use haul_test::memory::Memory;

mod read_ahead;

/// Bound of every wait in these tests.
const BOUND: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Unmeasured;

impl Measuring for Unmeasured {
    fn source(&self, _dirs: u64, _files: u64, _size: u64) -> Arc<dyn Store> {
        Arc::new(Memory::new())
    }

    fn sink(&self) -> Arc<dyn Store> {
        Arc::new(Memory::new())
    }

    fn tally(&self) -> Tally {
        Tally { bytes: 7, files: 3, load: Load { at: BOUND, ..Load::default() } }
    }
}

fn options() -> Options {
    Options {
        measuring: Arc::new(Unmeasured),
        umask: 0o022,
        confined: None,
        site: Site::default(),
        version: "0",
        silence: SILENCE,
        listening: LISTENING,
        abandoned: || (),
    }
}

/// The requesting end, without a thread of its own.
struct Asker {
    to: Plain<Bounded>,
    from: Plain<UnixStream>,
}

impl Asker {
    /// Asks an agent with so many threads.
    fn of(threads: usize) -> Asker {
        Asker::with(options(), threads)
    }

    fn with(options: Options, threads: usize) -> Asker {
        let agent = Agent::new(options, threads, join::Joining::default(), log::Log::default());
        let (here, there) = UnixStream::pair().expect("a pair");
        let serve = move || agent.serve_fds(there.try_clone().expect("copied").into(), there.into());
        std::thread::spawn(serve);
        here.set_read_timeout(Some(BOUND)).expect("set");
        let mut from = here.try_clone().expect("copied");
        let mut magic = vec![0; ops::MAGIC.len()];
        from.read_exact(&mut magic).expect("it greets");
        let over = Arc::new(AtomicBool::new(false));
        // One socket blocks or does not for both directions.
        let to = Bounded::new(here.into(), BOUND, over.clone()).expect("bounded");
        from.set_nonblocking(false).expect("set");
        Asker { to: Plain(to), from: Plain(from) }
    }

    fn ask(&mut self, kind: u8, id: u32, to: &Writer) {
        self.to.send(head(kind, id), &[&to.out]).expect("sent");
    }

    /// What is answered last to one request, whatever comes before.
    fn answer(&mut self, id: u32) -> Frame {
        loop {
            let frame = self.from.receive().expect("an answer in time").expect("no end");
            if frame.id == id && frame.kind != kind::MORE {
                return frame;
            }
        }
    }

    fn open_root(&mut self, path: &Path) {
        let mut to = Writer::default();
        to.put((1_u64, path.as_os_str().as_encoded_bytes(), USUAL));
        self.ask(ops::ROOT, 1, &to);
        assert_eq!(self.answer(1).kind, kind::DONE);
    }

    fn look(&mut self, id: u32) -> Frame {
        let mut to = Writer::default();
        self.ask(ops::LOOK, id, to.bytes(b"/"));
        self.answer(id)
    }
}

#[test]
fn listings_that_nobody_takes_keep_nobody_else_waiting() {
    let place = tempfile::tempdir().expect("a temporary directory");
    // More than goes out without having been asked for.
    for i in 0..512 * PARTS_AHEAD + 600 {
        std::fs::File::create(place.path().join(i.to_string())).expect("made");
    }
    let mut asker = Asker::of(2);
    asker.open_root(place.path());
    for id in 10..15 {
        let mut to = Writer::default();
        asker.ask(ops::LIST, id, to.put(1_u64).dir(&Dir::root()));
    }
    assert_eq!(asker.look(99).kind, kind::DONE);
    // They are all still there, and go on when they are taken.
    let mut credit = Writer::default();
    credit.put(100_u64);
    for id in 10..15 {
        asker.ask(kind::CREDIT, id, &credit);
        assert_eq!(asker.answer(id).kind, kind::DONE);
    }
    assert_eq!(asker.look(100).kind, kind::DONE);
}

#[test]
fn what_finds_no_thread_is_answered() {
    let mut asker = Asker::of(0);
    for id in 1..4 {
        let frame = asker.look(id);
        assert_eq!(frame.kind, kind::FAILED);
        let e = frame.body().error().expect("an error");
        assert!(e.kind() == ErrorKind::Busy && matches!(e.remedy(), Remedy::After(_)), "{e}");
    }
}

#[test]
fn a_link_that_takes_nothing_keeps_no_sign_of_life_from_another() {
    let agent = Agent::new(options(), 1, join::Joining::default(), log::Log::default());
    let link = |full: bool| {
        let (near, remote) = UnixStream::pair().expect("a pair");
        near.set_read_timeout(Some(BOUND)).expect("set");
        let over = Arc::new(AtomicBool::new(false));
        let output = Bounded::new(remote.try_clone().expect("copied").into(), ABANDONED, over.clone()).expect("bounded");
        while full && std::io::Write::write(&mut &remote, &[0; 4096]).is_ok() {}
        let output: Mutex<Box<dyn Output>> = Mutex::new(Box::new(Plain(output)));
        lock(&agent.peers).push(Arc::new(Peer { output, credits: Mutex::default(), earned: Condvar::new(), over, reader: false }));
        near
    };
    let (_dead, alive) = (link(true), link(false));
    let beating = agent.clone();
    std::thread::spawn(move || beating.beat());
    let frame = Plain(alive).receive().expect("a sign of life in time").expect("no end");
    assert_eq!(frame.kind, kind::HEARTBEAT);
}

#[test]
fn what_is_made_up_has_no_path_and_counts() {
    let mut asker = Asker::of(4);
    for (id, what) in [(1_u32, MadeUp::Sink), (2, MadeUp::Source { dirs: 1, files: 2, size: 1 << 20 })] {
        let mut to = Writer::default();
        asker.ask(ops::MADE_UP, id, to.put((u64::from(id), what)));
        assert_eq!(asker.answer(id).kind, kind::DONE);
    }
    // One is never a name of the other's file.
    let (mut to, mut from) = (Writer::default(), Writer::default());
    let name = Name::new(&Dir::root(), b"x");
    to.put(1_u64).name(&name);
    from.put(2_u64).name(&name).put(true);
    to.out.extend_from_slice(&from.out);
    asker.ask(ops::TAKE, 4, &to);
    let answer = asker.answer(4);
    assert_eq!(answer.body().error().expect("an error").kind(), ErrorKind::Unsupported);
    asker.ask(ops::TALLY, 5, &Writer::default());
    assert_eq!(asker.answer(5).body().get::<Tally>().expect("a tally"), Unmeasured.tally());
}

/// A client that is there sends a heartbeat every ten seconds; one that vanished behind a server that stays sends none.
#[test]
fn the_agent_of_a_silent_client_leaves_within_two_minutes() {
    assert!(SILENCE + HEARTBEAT < Duration::from_secs(120) && SILENCE > 6 * HEARTBEAT);
    static LEFT: AtomicBool = AtomicBool::new(false); // `abandoned` is a plain function
    let silence = Duration::from_millis(20);
    let agent = Agent::new(
        Options { silence, abandoned: || LEFT.store(true, Ordering::Relaxed), ..options() },
        1,
        join::Joining::default(),
        log::Log::default(),
    );
    // A link that is not read, because there is no room, is no sign that the client is gone.
    agent.deaf.fetch_add(1, Ordering::Relaxed);
    std::thread::sleep(silence * 2);
    assert!(!agent.is_abandoned());
    agent.deaf.fetch_sub(1, Ordering::Relaxed);
    assert!(agent.is_abandoned());
    agent.pulse();
    assert!(LEFT.load(Ordering::Relaxed));
}

/// A directory with links out of it, and an agent that is confined to it.
fn confined(read_only: bool) -> (tempfile::TempDir, Asker) {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = place.path().join("served");
    std::fs::create_dir_all(dir.join("in")).expect("made");
    std::fs::create_dir(place.path().join("outside")).expect("made");
    std::fs::write(place.path().join("outside/secret"), "x").expect("written");
    std::os::unix::fs::symlink("../outside", dir.join("out")).expect("linked");
    std::os::unix::fs::symlink("../outside/secret", dir.join("link")).expect("linked");
    let confined = Some(Arc::new(Confined::new(&dir, read_only).expect("opened")));
    (place, Asker::with(Options { confined, ..options() }, 4))
}

#[test]
fn no_request_of_a_confined_agent_leads_out() {
    let (place, mut asker) = confined(false);
    let mut id = 0;
    let mut ask = |kind: u8, to: &Writer| {
        id += 1;
        asker.ask(kind, id, to);
        asker.answer(id)
    };
    let root = |number: u64, path: &[u8], follow: bool| {
        let mut to = Writer::default();
        to.put((number, path, RootOptions { follow, ..USUAL }));
        to
    };
    let opened = ask(ops::ROOT, &root(1, b"/", false));
    assert_eq!(opened.kind, kind::DONE);
    assert_eq!(opened.body().get::<&[u8]>().expect("its path"), b"/", "the real path is not shown");
    for (path, follow) in
        [(&b"/"[..], true), (b"..", false), (b"/../outside", false), (b"out", false), (b"/etc", false), (b"in/../..", false)]
    {
        assert_eq!(ask(ops::ROOT, &root(2, path, follow)).kind, kind::FAILED, "{}", path.escape_ascii());
        let mut to = Writer::default();
        let looked = ask(ops::LOOK, to.bytes(&[path, b"/secret"].concat()));
        assert!(
            looked.kind == kind::FAILED || looked.body().get::<Option<Kind>>().is_ok_and(|found| found.is_none()),
            "{}",
            path.escape_ascii()
        );
    }
    let (top, out) = (Dir::root(), Dir::root().child(b"out"));
    for name in [
        Name::new(&out, b"secret"),
        Name::new(&top, b".."),
        Name::new(&Dir::root().child(b".."), b"outside"),
        Name::new(&top, b"out/secret"),
    ] {
        let mut to = Writer::default();
        assert_eq!(ask(ops::STAT, to.put(1_u64).name(&name).put(MetaMask::NONE)).kind, kind::FAILED, "{name:?}");
    }
    let link = Entry::bare(Name::new(&top, b"link"), Kind::File);
    for follow in [true, false] {
        let mut to = Writer::default();
        assert_eq!(ask(ops::OPEN, to.put((20_u64, 1_u64)).entry(&link).put(follow)).kind, kind::FAILED);
    }
    let mut many = Writer::default();
    assert_eq!(ask(ops::STAT_MANY, many.put(1_u64).dir(&top).put((MetaMask::NONE, true, 1_u64)).bytes(b"link")).kind, kind::FAILED);
    let mut bundle = Writer::default();
    assert_eq!(ask(ops::GET_BUNDLE, bundle.put((1_u64, MetaMask::NONE, true, false, 1_u64)).entry(&link)).kind, kind::FAILED);
    let device = Entry { rdev: 0x103, ..Entry::bare(Name::new(&top, b"null"), Kind::Char) };
    let mut node = Writer::default();
    let refused =
        ask(ops::MAKE_NODE, node.put(1_u64).name(&device.name).entry(&device).put(MetaMask::NONE)).body().error().expect("an error");
    assert_eq!(refused.kind(), ErrorKind::Denied);
    for kind in [ops::TLS_READER, ops::TLS_LINK_PEER] {
        assert_eq!(ask(kind, &Writer::default()).body().error().expect("an error").kind(), ErrorKind::Unsupported);
    }
    let mut to = Writer::default();
    assert_eq!(ask(ops::MAKE_PATH, to.bytes(b"out/new").put(true)).kind, kind::FAILED);
    assert_eq!(std::fs::read_dir(place.path().join("outside")).expect("listed").count(), 1);
}

/// Of all numbers that a request can have, those that change something are refused before a byte of them is read.
#[test]
fn an_agent_for_reading_refuses_all_that_is_not_known_to_read() {
    let (_place, mut asker) = confined(true);
    let mut changes = Vec::new();
    for kind in ops::HELLO..0x80 {
        if in_parts(kind) {
            continue;
        }
        // Enough numbers for each to be read; what they mean does not matter.
        let mut to = Writer::default();
        asker.ask(kind, kind.into(), to.put((9_u64, 0_u64, 0_u64, 0_u64)));
        let answer = asker.answer(kind.into());
        if answer.kind == kind::FAILED && answer.body().error().expect("an error").kind() == ErrorKind::Denied {
            changes.push(kind);
        }
    }
    let all = [
        ops::MAKE_PATH,
        ops::CREATE,
        ops::ATTACH,
        ops::REOPEN,
        ops::REREAD,
        ops::WRITE,
        ops::HOLE,
        ops::COMMIT,
        ops::ABORT,
        ops::ABANDON,
        ops::PUT_BUNDLE,
        ops::MAKE_DIRS,
        ops::MAKE_NODE,
        ops::HARD_LINK,
        ops::SET_META,
        ops::REMOVE,
        ops::RENAME,
        ops::SETTLE,
        ops::REUSE,
        ops::PULL,
        ops::TAKE,
        127,
    ];
    assert!(all.iter().all(|kind| changes.contains(kind)), "{changes:?}");
}

#[test]
fn connections_that_are_added_after_losses_tolerate_them_from_their_start() {
    use crate::agent::direct::{self, Listener, Until};
    use rustix::net::sockopt::tcp_congestion;
    let agent = Agent::new(options(), 1, join::Joining::default(), log::Log::default());
    let (here, client) = (std::net::IpAddr::from([127, 0, 0, 1]), Identity::new().expect("a key"));
    let server = agent.identity().expect("a key");
    let acceptor = server.acceptor(client.fingerprint, &agent.options.site.suites).expect("a configuration");
    let connector = client.connector(server.fingerprint, &agent.options.site.suites).expect("a configuration");
    let listener = Listener::new(here, None, acceptor, here).expect("a port");
    let at = std::net::SocketAddr::new(here, listener.port().expect("its number"));
    let serving = agent.clone();
    let each = Arc::new(move |link| serving.serve_encrypted(link, false));
    listener.accept_on_thread(Until { count: 1, within: LISTENING, over: || false }, BOUND, each).expect("a thread");
    // What such a connection gets, and one before losses.
    let (plain, tolerant) = (direct::open(at).expect("open").0, direct::open(at).expect("open").0);
    let wanted = if haul_net::tcp::tolerate_losses(&tolerant) { "bbr".to_string() } else { tcp_congestion(&plain).expect("a name") };
    assert!(agent.data.tolerate_losses() && agent.data.sockets().is_empty());
    let _link = direct::connect(at, connector, BOUND).expect("connected");
    let begun = Instant::now();
    while agent.data.sockets().is_empty() && begun.elapsed() < BOUND {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(tcp_congestion(&agent.data.sockets()[0]).expect("a name"), wanted);
}
