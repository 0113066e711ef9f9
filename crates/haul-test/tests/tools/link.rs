//! The emulated link does what it says. No assertion depends on how fast the machine is: all times have a lower bound only.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use haul_test::link::{End, FAR, Link, NEAR, Options};

/// Longer than anything here takes; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

fn listen(end: &End) -> TcpListener {
    end.inside(|| TcpListener::bind((end.address(), 0)).unwrap()).unwrap()
}

/// A connection from near to far, both of its ends.
fn connect(link: &Link) -> (TcpStream, TcpStream) {
    let listener = listen(link.far());
    let address = listener.local_addr().unwrap();
    let near = link.near().inside(|| TcpStream::connect_timeout(&address, PATIENCE).unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
    }
    (near, far)
}

fn socket(end: &End) -> UdpSocket {
    let socket = end.inside(|| UdpSocket::bind((end.address(), 0)).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Waits for what is true soon. A process that another test is starting just now holds copies of all descriptors until it executes its program,
/// and with them devices and namespaces.
fn soon(what: &str, is_true: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The devices that a namespace has.
fn devices(end: &End) -> Vec<String> {
    let table = end.inside(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

/// Sends that many bytes from near to far over TCP, and says how long it took until the last one was there.
fn move_bytes(link: &Link, total: usize) -> Duration {
    let (mut near, mut far) = connect(link);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || near.write_all(&vec![7; total]).unwrap());
        let mut arrived = vec![0; total];
        far.read_exact(&mut arrived).unwrap();
    });
    start.elapsed()
}

#[test]
fn an_echo_takes_a_round_trip() {
    let delay = Duration::from_millis(20);
    let link = Link::new(Options { delay, ..Options::default() }).unwrap();
    let start = Instant::now();
    let (mut near, mut far) = connect(&link);
    assert!(start.elapsed() >= 2 * delay, "connected after {:?}", start.elapsed());
    let echo = thread::spawn(move || {
        let mut word = [0; 4];
        far.read_exact(&mut word).unwrap();
        far.write_all(&word).unwrap();
    });
    let start = Instant::now();
    near.write_all(b"haul").unwrap();
    let mut word = [0; 4];
    near.read_exact(&mut word).unwrap();
    assert!(start.elapsed() >= 2 * delay, "came back after {:?}", start.elapsed());
    assert_eq!(&word, b"haul");
    echo.join().unwrap();
    assert!(link.forth().packets > 0 && link.back().packets > 0);
}

#[test]
fn each_direction_has_its_own_delay() {
    let delay = Duration::from_millis(30);
    let link = Link::uneven(Options { delay, ..Options::default() }, Options::default()).unwrap();
    let (near, far) = (socket(link.near()), socket(link.far()));
    let mut word = [0; 8];
    let start = Instant::now();
    near.send_to(b"there", far.local_addr().unwrap()).unwrap();
    far.recv_from(&mut word).unwrap();
    assert!(start.elapsed() >= delay, "{:?}", start.elapsed());
    far.send_to(b"back", near.local_addr().unwrap()).unwrap();
    assert_eq!(near.recv_from(&mut word).unwrap(), (4, far.local_addr().unwrap()));
}

#[test]
fn with_all_lost_nothing_arrives_until_the_cable_is_mended() {
    let link = Link::new(Options { loss: 1.0, ..Options::default() }).unwrap();
    let (near, far) = (socket(link.near()), socket(link.far()));
    let to = far.local_addr().unwrap();
    for _ in 0..100 {
        near.send_to(b"lost", to).unwrap();
    }
    soon("the dice took all", || link.forth().lost == 100);
    assert_eq!((link.forth().packets, link.forth().bytes), (0, 0));
    link.set_loss(0.0);
    near.send_to(b"found", to).unwrap();
    let mut word = [0; 8];
    assert_eq!(far.recv(&mut word).unwrap(), 5);
    assert_eq!(&word[..5], b"found");
}

#[test]
fn some_loss_delays_tcp_and_falsifies_nothing() {
    let seed = 7;
    println!("seed {seed}");
    let link = Link::new(Options { loss: 0.02, mtu: 1500, seed, ..Options::default() }).unwrap();
    let (mut near, mut far) = connect(&link);
    let sent: Vec<u8> = (0..2_000_000u32).map(|n| (n * 7 / 3) as u8).collect();
    let mut arrived = vec![0; sent.len()];
    thread::scope(|scope| {
        scope.spawn(|| near.write_all(&sent).unwrap());
        far.read_exact(&mut arrived).unwrap();
    });
    assert!(arrived == sent);
    assert!(link.forth().lost > 0, "{:?}", link.forth());
}

#[test]
fn moving_bytes_takes_at_least_what_the_rate_says() {
    let (rate, delay) = (4_000_000, Duration::from_millis(5));
    let link = Link::new(Options { rate: Some(rate), delay, ..Options::default() }).unwrap();
    let total = 2_000_000;
    let took = move_bytes(&link, total);
    let least = Duration::from_secs_f64(total as f64 / rate as f64) + delay;
    assert!(took >= least, "{took:?}, and at least {least:?} is right");
    assert!(link.forth().bytes >= total as u64, "{:?}", link.forth());
}

#[test]
fn a_flood_passes_at_the_rate_and_the_rest_is_dropped() {
    let (rate, queue) = (1_000_000, 50_000);
    let link = Link::new(Options { rate: Some(rate), queue: Some(queue), ..Options::default() }).unwrap();
    let (near, far) = (socket(link.near()), socket(link.far()));
    let to = far.local_addr().unwrap();
    let start = Instant::now();
    let packet = [1; 1000];
    for _ in 0..1000 {
        near.send_to(&packet, to).unwrap();
    }
    let until = Instant::now() + PATIENCE;
    // Of every packet it is known what became of it: 28 bytes each are headers of IP and UDP.
    loop {
        let (seen, elapsed) = (link.forth(), start.elapsed());
        assert!(seen.bytes as f64 <= elapsed.as_secs_f64() * rate as f64 + queue as f64, "{seen:?} after {elapsed:?}");
        assert_eq!(seen.bytes, seen.packets * 1028);
        if seen.packets + seen.overflowed == 1000 {
            break;
        }
        assert!(Instant::now() < until, "{seen:?}");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(link.forth().packets >= queue / 1028, "{:?}", link.forth());
}

#[test]
fn packets_of_the_largest_size_pass_whole() {
    for mtu in [576, 1500, 9000, 65_535] {
        let link = Link::new(Options { mtu, ..Options::default() }).unwrap();
        let (near, far) = (socket(link.near()), socket(link.far()));
        let packet = vec![3; mtu as usize - 28];
        near.send_to(&packet, far.local_addr().unwrap()).unwrap();
        let mut arrived = vec![0; 70_000];
        assert_eq!(far.recv(&mut arrived).unwrap(), packet.len(), "MTU {mtu}");
        assert_eq!((link.forth().packets, link.forth().bytes), (1, u64::from(mtu)), "MTU {mtu}");
    }
}

#[test]
fn two_links_do_not_see_each_other() {
    let one = Link::new(Options::default()).unwrap();
    let other = Link::new(Options { loss: 1.0, ..Options::default() }).unwrap();
    let (near, far) = (socket(one.near()), socket(one.far()));
    let stray = socket(other.near());
    stray.send_to(b"stray", far.local_addr().unwrap()).unwrap();
    soon("the stray packet has met its link", || other.forth().lost == 1);
    near.send_to(b"mine", far.local_addr().unwrap()).unwrap();
    let mut word = [0; 8];
    assert_eq!(far.recv_from(&mut word).unwrap(), (4, near.local_addr().unwrap()));
    assert_eq!((one.forth().packets, one.back().packets), (1, 0));
    drop(other);
    near.send_to(b"still", far.local_addr().unwrap()).unwrap();
    assert_eq!(far.recv(&mut word).unwrap(), 5);
}

#[test]
fn a_command_runs_at_its_end_and_reaches_nothing_else() {
    let link = Link::new(Options::default()).unwrap();
    let here = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    let mut seen = vec![here];
    for end in [link.near(), link.far()] {
        let output = end.command("stat").args(["-L", "-c", "%i", "/proc/self/ns/net"]).output().unwrap();
        seen.push(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
        assert_eq!(devices(end), ["lo", "tun0"]);
        // Its own addresses answer, and no other one has a route.
        let local = end.inside(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
        let address = local.local_addr().unwrap();
        end.inside(|| TcpStream::connect_timeout(&address, PATIENCE).unwrap()).unwrap();
        let error = end.inside(|| socket(end).send_to(b"out", ("192.0.2.1", 9)).unwrap_err()).unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::NetworkUnreachable);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!((link.near().address(), link.far().address()), (NEAR, FAR));
}

/// Whether any process or descriptor of this machine still holds that namespace.
fn is_held(inode: u64) -> bool {
    let name = format!("net:[{inode}]");
    let holds = |path: std::path::PathBuf| std::fs::read_link(path).is_ok_and(|target| target.to_str() == Some(&name));
    let inside = |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    inside("/proc".into())
        .any(|process| inside(process.join("task")).any(|task| holds(task.join("ns/net"))) || inside(process.join("fd")).any(holds))
}

/// Everything that a link makes, with a program at each end that would outlive it.
fn torn_down(drop_it: impl FnOnce(Link) + Send) {
    let link = Link::new(Options { delay: Duration::from_millis(1), ..Options::default() }).unwrap();
    let (near, far) = (link.near().clone(), link.far().clone());
    let children: Vec<_> =
        [&near, &far].map(|end| end.command("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()).into_iter().collect();
    for (end, child) in [&near, &far].into_iter().zip(&children) {
        assert_eq!(end.processes().unwrap(), [child.id()]);
        assert_eq!(devices(end), ["lo", "tun0"]);
    }
    let inodes = [&near, &far].map(|end| rustix::fs::fstat(end.namespace()).unwrap().st_ino);
    drop_it(link);
    for mut child in children {
        assert!(!child.wait().unwrap().success(), "it was killed");
    }
    for end in [&near, &far] {
        soon("the device is gone", || devices(end) == ["lo"]);
    }
    assert!(inodes.iter().all(|inode| is_held(*inode)), "or the search finds nothing");
    drop((near, far));
    soon("nobody holds the namespaces", || !inodes.iter().any(|inode| is_held(*inode)));
}

#[test]
fn nothing_is_left_after_a_drop() {
    torn_down(drop);
}

#[test]
fn nothing_is_left_after_a_panic() {
    torn_down(|link| {
        let panicked = thread::spawn(move || {
            let _held = link;
            std::panic::panic_any("on purpose");
        });
        assert!(panicked.join().is_err());
    });
}

#[test]
fn options_out_of_bounds_are_refused() {
    let fine = Options::default();
    let wrong = [
        Options { loss: 1.5, ..fine.clone() },
        Options { loss: f64::NAN, ..fine.clone() },
        Options { rate: Some(0), ..fine.clone() },
        Options { mtu: 100, ..fine.clone() },
        Options { mtu: 70_000, ..fine.clone() },
    ];
    for options in wrong {
        assert_eq!(Link::new(options.clone()).unwrap_err().kind(), std::io::ErrorKind::InvalidInput, "{options:?}");
    }
}

/// The program of the command line.
fn haul_link(arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_haul-link")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_program_runs_a_server_far_and_a_command_near() {
    // The shell at the far end names its own process.
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let far =
        format!("echo $$ > {0}.new && stat -L -c %i /proc/$$/ns/net > {1} && mv {0}.new {0}; sleep 1000; :", path("pid"), path("far"));
    let near = format!(
        "while ! [ -e {} ]; do sleep 0.01; done; stat -L -c %i /proc/$$/ns/net > {}; echo $HAUL_NEAR $HAUL_FAR; exit 7",
        path("pid"),
        path("near")
    );
    let output = haul_link(&["--delay", "1ms", "--rate", "10M", "--loss", "0.5", "--count", "--far", &far, "--", "sh", "-c", &near]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "10.99.0.1 10.99.0.2\n");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "haul-link: forth 0 packets, 0 bytes; lost 0, dropped by a full queue 0\n\
         haul-link: back  0 packets, 0 bytes; lost 0, dropped by a full queue 0\n"
    );
    let number = |name: &str| std::fs::read_to_string(path(name)).unwrap().trim().parse::<u64>().unwrap();
    let here = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
    assert!(number("near") != number("far") && number("near") != here && number("far") != here);
    assert!(!is_held(number("near")) && !is_held(number("far")));
}

#[test]
fn the_program_says_what_it_cannot_do() {
    for (arguments, words) in [
        (&["--loss", "2", "--", "true"][..], "haul-link: a loss is a share from 0.0 to 1.0\n"),
        (&["--rate", "fast", "--", "true"], "haul-link: \"fast\" is no size\n"),
        (&["--", "/nonexistent/program"], "haul-link: /nonexistent/program: No such file or directory (os error 2)\n"),
    ] {
        let output = haul_link(arguments);
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(125), words));
    }
}
