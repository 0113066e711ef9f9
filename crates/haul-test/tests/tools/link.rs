//! The emulated link does what it says. No assertion depends on how fast the machine is: all times have a lower bound only.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use haul_test::link::{End, Link, Options};

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

/// Whether any process or descriptor of this machine still holds that namespace.
fn is_held(inode: u64) -> bool {
    let name = format!("net:[{inode}]");
    let holds = |path: std::path::PathBuf| std::fs::read_link(path).is_ok_and(|target| target.to_str() == Some(&name));
    let inside = |path: std::path::PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    inside("/proc".into())
        .any(|process| inside(process.join("task")).any(|task| holds(task.join("ns/net"))) || inside(process.join("fd")).any(holds))
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
    let output = Command::new(env!("CARGO_BIN_EXE_haul-link"))
        .args(["--delay", "1ms", "--rate", "10M", "--loss", "0.5", "--count", "--far", &far, "--", "sh", "-c", &near])
        .stdin(Stdio::null())
        .output()
        .unwrap();
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
