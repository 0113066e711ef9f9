//! For the tests: ranks that exchange messages, or wait, and say what they have seen. `exchange all | idle SECONDS | die RANK | codes | stuck | deaf`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use haul_core::team::Transport;
use haul_mpi::{Ended, Mpi};

const LONG: Duration = Duration::from_secs(60);

/// From an empty message to one that no library sends at once.
const SIZES: [usize; 9] = [0, 1, 100, 4096, 4097, 70_000, 1 << 20, 16 << 20, 3];

fn main() -> ExitCode {
    let mpi = Mpi::start().expect("MPI");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let code = match words[..] {
        ["all"] => all(&mpi),
        ["idle", seconds] => idle(Duration::from_secs(seconds.parse().expect("seconds"))),
        ["die", rank] => die(&mpi, rank.parse().expect("a rank")),
        ["stuck"] => return stuck(&mpi),
        ["deaf"] => deaf(&mpi),
        ["codes"] => mpi.rank() as u8 + 3,
        _ => panic!("unknown words: {words:?}"),
    };
    let codes = mpi.end(Ended::Done(code)).expect("all ranks end");
    if mpi.rank() == 0 {
        println!("{} ranks of {}: codes {codes:?}", mpi.ranks(), Mpi::library());
    }
    assert!(mpi.send(0, Vec::new()).is_err(), "MPI has ended");
    ExitCode::SUCCESS
}

fn content(from: u32, to: u32, n: usize, size: usize) -> Vec<u8> {
    let seed = (from as usize * 31 + to as usize) * 31 + n;
    (0..size).map(|at| (at.wrapping_mul(2654435761) >> 7) as u8 ^ (at + seed) as u8).collect()
}

/// Each rank sends one message of each size to each rank, itself too, and takes all that come, in the order of their senders.
fn all(mpi: &Mpi) -> u8 {
    for (n, size) in SIZES.into_iter().enumerate() {
        for to in 0..mpi.ranks() {
            mpi.send(to, content(mpi.rank(), to, n, size)).expect("sent");
        }
    }
    let mut next = vec![0; mpi.ranks() as usize];
    for _ in 0..SIZES.len() * mpi.ranks() as usize {
        let (from, message) = mpi.receive(LONG).expect("MPI works").expect("a message comes");
        let n = next[from as usize];
        next[from as usize] += 1;
        assert!(message == content(from, mpi.rank(), n, SIZES[n]), "message {n} from {from}: {} bytes", message.len());
    }
    assert_eq!(mpi.receive(Duration::from_millis(20)).expect("MPI works"), None);
    0
}

/// Waits, and returns the percentage of the time for which this process had a processor.
fn idle(wait: Duration) -> u8 {
    let (begun, before) = (Instant::now(), ticks());
    std::thread::sleep(wait);
    let used = (ticks() - before) as f64 / 100.0;
    (100.0 * used / begun.elapsed().as_secs_f64()).round().min(255.0) as u8
}

/// Hundredths of a second of processors that this process has had.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("a number")).sum()
}

/// This rank is killed; the others wait for a message of it.
fn die(mpi: &Mpi, rank: u32) -> u8 {
    if mpi.rank() == rank {
        println!("pid {}", std::process::id());
        // SAFETY: the process ends.
        unsafe { libc::raise(libc::SIGKILL) };
    }
    let _ = mpi.receive(LONG);
    1
}

/// The second of three ranks is stopped until the first, which has sent it more than may wait, has reached the third.
fn deaf(mpi: &Mpi) -> u8 {
    const MANY: usize = 512;
    let next = || mpi.receive(LONG).expect("MPI works").expect("a message comes");
    match mpi.rank() {
        0 => {
            assert_eq!(next(), (2, b"go".to_vec()));
            // From the thread that receives, as it never waits for room.
            let full = (0..MANY).find_map(|_| mpi.send(1, vec![1; 1 << 20]).err()).expect("bounded");
            assert!(full.to_string().contains("rank 1 does not read its messages"), "{full}");
            mpi.send(2, b"heard".to_vec()).expect("room for others");
        }
        1 => {
            mpi.send(2, std::process::id().to_le_bytes().to_vec()).expect("sent");
            while next().0 != 2 {}
        }
        _ => {
            let pid = i32::from_le_bytes(next().1.try_into().expect("a pid"));
            // SAFETY: a process of this test.
            let signal = |signal| assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
            signal(libc::SIGSTOP);
            mpi.send(0, b"go".to_vec()).expect("sent");
            assert_eq!(next(), (0, b"heard".to_vec()));
            signal(libc::SIGCONT);
            mpi.send(1, b"end".to_vec()).expect("sent");
        }
    }
    0
}

/// The second of two ranks hangs; the first has something to send to it and is stopped.
fn stuck(mpi: &Mpi) -> ExitCode {
    if mpi.rank() != 0 {
        mpi.send(0, std::process::id().to_le_bytes().to_vec()).expect("sent");
        loop {
            std::thread::sleep(LONG);
        }
    }
    let (hanging, pid) = mpi.receive(LONG).expect("MPI works").expect("a message comes");
    let pid = i32::from_le_bytes(pid.try_into().expect("a pid"));
    // SAFETY: a process of this test.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
    mpi.send(hanging, vec![1; 16 << 20]).expect("left to MPI");
    let _ = mpi.end(Ended::Stopped(4));
    panic!("all ranks are ended");
}
