//! A contender as a process of its own: how long it took, what it cost, how it ended.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};

/// Bytes of each of a contender's outputs that are kept: the last ones.
const KEPT: usize = 64 << 10;

/// Between two looks at the time limit and at the signals.
const LOOK: Duration = Duration::from_millis(20);

/// How long a process that was told to stop may take, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A process that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// From before the process is made until it has been waited for, seconds.
    pub seconds: f64,
    /// Processor time, seconds: of the process and of those of its children that it has waited for.
    pub user: f64,
    pub system: f64,
    /// The largest resident memory of the process or of one of its children, bytes.
    pub peak: u64,
    pub ending: Ending,
    /// The last 64 KiB of each.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    /// It was killed because its time was over.
    Timeout,
    /// It was killed because the whole run was to stop.
    Cancelled,
}

/// Runs a program to its end, in a process group of its own, with nothing on standard input.
///
/// No shell sees the arguments. When `limit` has passed or `cancel` is set, the group is sent SIGTERM and, two seconds
/// later, SIGKILL. Errors: the program cannot be begun (`NotFound` where there is none).
pub fn run(argv: &[OsString], env: &[(OsString, OsString)], limit: Duration, cancel: &Cancel) -> Result<Ran> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Error::new(ErrorKind::Usage, "run").because("an empty command"));
    };
    let mut command = Command::new(program);
    command.args(arguments).envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().map_err(|e| Error::io(e, "run").at(program.as_encoded_bytes()))?;
    let (stdout, stderr) = (Tail::of(child.stdout.take()), Tail::of(child.stderr.take()));
    let (ending, usage, seconds) = wait(&child, began, limit, cancel)?;
    // What it left behind must not run on beside the next contender.
    signal_group(&child, libc::SIGKILL);
    let seconds_of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(Ran {
        seconds,
        user: seconds_of(usage.ru_utime),
        system: seconds_of(usage.ru_stime),
        // In KiB on Linux: getrusage(2).
        peak: usage.ru_maxrss.cast_unsigned() * 1024,
        ending,
        stdout: stdout.take(),
        stderr: stderr.take(),
    })
}

fn signal_group(child: &Child, signal: libc::c_int) {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: kill takes plain numbers. The group is the child's own, made at its start; that it has gone is no error here.
        unsafe { libc::kill(-group, signal) };
    }
}

fn wait(child: &Child, began: Instant, limit: Duration, cancel: &Cancel) -> Result<(Ending, libc::rusage, f64)> {
    let pid = child.id().cast_signed();
    let mut told: Option<(Ending, Instant)> = None;
    // A thread waits, so that the end is seen when it comes and not at the next look.
    let ended = Arc::new((Mutex::new(None), std::sync::Condvar::new()));
    let teller = ended.clone();
    let waiter = std::thread::spawn(move || {
        let reaped = reap(pid);
        let at = Instant::now();
        *teller.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((reaped, at));
        teller.1.notify_all();
    });
    let mut killed = false;
    let (reaped, at) = loop {
        let state = ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = ended.1.wait_timeout_while(state, LOOK, |state| state.is_none()).unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = state.take() {
            break end;
        }
        drop(state);
        match told {
            None if cancel.check().is_err() => told = Some((Ending::Cancelled, Instant::now())),
            None if began.elapsed() >= limit => told = Some((Ending::Timeout, Instant::now())),
            None => continue,
            Some((_, since)) if !killed && since.elapsed() >= GRACE => {
                killed = true;
                signal_group(child, libc::SIGKILL);
                continue;
            }
            Some(_) => continue,
        }
        signal_group(child, libc::SIGTERM);
    };
    let _joined = waiter.join();
    let (status, usage) = reaped.map_err(|e| Error::io(e, "wait for a process"))?;
    let ending = match told {
        Some((ending, _)) => ending,
        None if libc::WIFSIGNALED(status) => Ending::Signal(libc::WTERMSIG(status)),
        None => Ending::Exit(libc::WEXITSTATUS(status)),
    };
    Ok((ending, usage, at.duration_since(began).as_secs_f64()))
}

/// Waits for one child, with what it and its own children used.
fn reap(pid: libc::pid_t) -> std::io::Result<(libc::c_int, libc::rusage)> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values of the right type; the pid is that of a child that nobody else waits for.
        let got = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if got == pid {
            return Ok((status, usage));
        }
        let e = std::io::Error::last_os_error();
        if e.kind() != std::io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// The end of an output, read by a thread that goes when the output ends.
struct Tail {
    kept: Arc<Mutex<Vec<u8>>>,
    ended: Arc<AtomicBool>,
}

impl Tail {
    fn of(from: Option<impl Read + Send + 'static>) -> Tail {
        let tail = Tail { kept: Arc::default(), ended: Arc::new(AtomicBool::new(from.is_none())) };
        let (kept, ended) = (tail.kept.clone(), tail.ended.clone());
        if let Some(mut from) = from {
            std::thread::spawn(move || {
                let mut buffer = [0; 8 << 10];
                while let Ok(n @ 1..) = from.read(&mut buffer) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend_from_slice(&buffer[..n]);
                    let over = kept.len().saturating_sub(KEPT);
                    if over > KEPT {
                        kept.drain(..over);
                    }
                }
                ended.store(true, Ordering::Release);
            });
        }
        tail
    }

    /// A process that left the group may hold the pipe open: after a short while what has come is all.
    fn take(self) -> Vec<u8> {
        let until = Instant::now() + GRACE;
        while !self.ended.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration, cancel: &Cancel) -> Ran {
        run(&["sh".into(), "-c".into(), script.into()], &[], limit, cancel).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_ending_is_told_with_its_output() {
        let ran = sh("echo out; echo err >&2; exit 3", LONG, &Cancel::default());
        assert_eq!((ran.ending, &ran.stdout[..], &ran.stderr[..]), (Ending::Exit(3), &b"out\n"[..], &b"err\n"[..]));
        assert!(ran.peak > 0);
        assert_eq!(sh("kill -9 $$", LONG, &Cancel::default()).ending, Ending::Signal(9));
        let missing = run(&["no-such-program".into()], &[], LONG, &Cancel::default()).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn time_that_is_over_ends_the_whole_group() {
        // The child of the shell would hold the pipe for a minute.
        let ran = sh("trap '' TERM; sleep 60 & wait; sleep 60", Duration::from_millis(100), &Cancel::default());
        assert_eq!(ran.ending, Ending::Timeout);
        let cancel = Cancel::default();
        cancel.set(haul_core::cancel::Stop::Signal);
        assert_eq!(sh("sleep 60", LONG, &cancel).ending, Ending::Cancelled);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let ran = sh("yes x | head -c 1000000; echo end", LONG, &Cancel::default());
        assert_eq!(ran.stdout.len(), KEPT);
        assert!(ran.stdout.ends_with(b"end\n"));
    }

    #[test]
    fn children_count() {
        let ran = sh("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; true", LONG, &Cancel::default());
        assert!(ran.user + ran.system > 0.0);
    }
}
