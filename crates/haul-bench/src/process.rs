//! A contender as a process of its own: how long it took, what it cost, how it ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
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

/// How long one that was killed may take to be gone. One that waits in the kernel for a disk or a server that does not answer
/// may never be.
const KILLED: Duration = Duration::from_secs(30);

/// The process group that runs now, for whoever must end it without waiting. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Group(Arc<AtomicI32>);

impl Group {
    /// Kills it, if there is one.
    pub fn kill(&self) {
        signal_group(self.0.load(Ordering::Acquire), libc::SIGKILL);
    }

    fn is(&self, child: Option<&Child>) {
        self.0.store(child.map_or(0, |child| child.id().cast_signed()), Ordering::Release);
    }
}

/// How long a process may go on.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    pub limit: Duration,
    pub cancel: &'a Cancel,
    pub group: &'a Group,
}

/// A process that has ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// From before the first process is made until all have been waited for, seconds.
    pub seconds: f64,
    /// Processor time, seconds: of the process and of those of its children that it has waited for.
    pub user: f64,
    pub system: f64,
    /// The largest resident memory of each process or of one of its children, added up, bytes. The system counts the memory that
    /// this process has when it begins another as that one's own; where it says no more than that, it is what was seen at looks
    /// every 20 ms, and `None` where the process was gone before there was one.
    pub peak: Option<u64>,
    /// The bound that is known where `peak` is `None`: bytes.
    pub peak_below: u64,
    pub ending: Ending,
    /// A process that was killed and is not gone: nothing that it does has ended.
    pub stuck: Option<u32>,
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

/// Runs a program to its end: [`pipe`] of one.
pub fn run(argv: &[OsString], env: &[(OsString, OsString)], bounds: Bounds<'_>) -> Result<Ran> {
    pipe(&[argv.to_vec()], env, None, bounds)
}

/// Runs programs to their end, in a process group of their own, each reading what the one before it writes; the first reads
/// `input`, or nothing.
///
/// No shell sees the arguments. When the limit has passed or the run was told to stop, the group is sent SIGTERM and, two seconds
/// later, SIGKILL; what is not gone 30 seconds after that is given up. They are killed too when the thread ends that called this,
/// as when this process is killed. Times and memory are those of all of them together, the ending is that of the last one that did not end
/// well: those before it have only lost their reader. Errors: a program cannot be begun (`NotFound` where there is none).
pub fn pipe(stages: &[Vec<OsString>], env: &[(OsString, OsString)], input: Option<File>, bounds: Bounds<'_>) -> Result<Ran> {
    let floor = own_peak();
    let began = Instant::now();
    let mut children: Vec<Child> = Vec::with_capacity(stages.len());
    let mut errors = Vec::with_capacity(stages.len());
    let mut input = input.map_or_else(Stdio::null, Stdio::from);
    let mut last = None;
    for argv in stages {
        input = last.take().map_or(input, Stdio::from);
        match begin(argv, env, input, children.first()) {
            Ok(mut child) => {
                errors.push(Tail::of(child.stderr.take()));
                last = child.stdout.take();
                input = Stdio::null();
                children.push(child);
                bounds.group.is(children.first());
            }
            Err(e) => {
                bounds.group.kill();
                for child in &mut children {
                    let _killed = child.wait();
                }
                bounds.group.is(None);
                return Err(e);
            }
        }
    }
    if children.is_empty() {
        return Err(Error::new(ErrorKind::Usage, "run").because("an empty command"));
    }
    let stdout = Tail::of(last);
    let mut seen = vec![0; children.len()];
    let signal = |signal| signal_group(bounds.group.0.load(Ordering::Acquire), signal);
    let Waited { told, reaped } = wait(&children, began, bounds, Timeouts { grace: GRACE, killed: KILLED }, &signal, &mut seen);
    // What they left behind must not run on beside the next contender.
    bounds.group.kill();
    bounds.group.is(None);
    let mut ran = Ran {
        seconds: 0.0,
        user: 0.0,
        system: 0.0,
        peak: Some(0),
        peak_below: 0,
        ending: Ending::Exit(0),
        stuck: None,
        stdout: stdout.take(),
        stderr: Vec::new(),
    };
    for ((child, reaped), seen) in children.iter().zip(reaped).zip(seen) {
        let Some((reaped, at)) = reaped else {
            ran.stuck = Some(child.id());
            ran.seconds = ran.seconds.max(began.elapsed().as_secs_f64());
            continue;
        };
        let (status, usage) = reaped.map_err(|e| Error::io(e, "wait for a process"))?;
        ran.seconds = ran.seconds.max(at.duration_since(began).as_secs_f64());
        ran.user += seconds_of(usage.ru_utime);
        ran.system += seconds_of(usage.ru_stime);
        // In KiB on Linux: getrusage(2).
        let peak = usage.ru_maxrss.cast_unsigned() * 1024;
        ran.peak_below += peak;
        let known = if peak > floor { Some(peak) } else { Some(seen).filter(|seen| *seen > 0) };
        ran.peak = ran.peak.zip(known).map(|(sum, peak)| sum + peak);
        match ending_of(status) {
            Ending::Exit(0) => {}
            bad => ran.ending = bad,
        }
    }
    if let Some(told) = told {
        ran.ending = told;
    }
    for error in errors {
        ran.stderr.extend(error.take());
    }
    Ok(ran)
}

fn begin(argv: &[OsString], env: &[(OsString, OsString)], input: Stdio, first: Option<&Child>) -> Result<Child> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Error::new(ErrorKind::Usage, "run").because("an empty command"));
    };
    let group = first.and_then(|child| i32::try_from(child.id()).ok()).unwrap_or(0);
    let mut command = Command::new(program);
    let own = std::process::id().cast_signed();
    // SAFETY: between fork and exec only prctl and getppid are called, which are plain system calls and allocate nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // Who began it may have gone before.
            if libc::getppid() == own { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::ESRCH)) }
        });
    }
    command.args(arguments).envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(group);
    command.spawn().map_err(|e| Error::io(e, "run").at(program.as_encoded_bytes()))
}

/// The largest resident memory that this process has had, bytes; 0 where the system does not say.
fn own_peak() -> u64 {
    peak_of("self")
}

fn peak_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}

/// The largest that a process or one of those below it has had so far, as far as they are alive.
fn peak_below(process: u32) -> u64 {
    let mut most = 0;
    let mut waiting = vec![process.to_string()];
    // A fork bomb is not counted to its end.
    for _ in 0..256 {
        let Some(process) = waiting.pop() else { break };
        most = most.max(peak_of(&process));
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        waiting.extend(children.split_whitespace().map(str::to_string));
    }
    most
}

fn seconds_of(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

fn ending_of(status: libc::c_int) -> Ending {
    if libc::WIFSIGNALED(status) { Ending::Signal(libc::WTERMSIG(status)) } else { Ending::Exit(libc::WEXITSTATUS(status)) }
}

fn signal_group(group: libc::pid_t, signal: libc::c_int) {
    // 0 and 1 would mean this process's own group, and everyone.
    if group > 1 {
        // SAFETY: kill takes plain numbers. The group is a child's own, made at its start; that it has gone is no error here.
        unsafe { libc::kill(-group, signal) };
    }
}

type Reaped = (std::io::Result<(libc::c_int, libc::rusage)>, Instant);

/// How long what was told to end may take: until it is killed, and from then on.
struct Timeouts {
    grace: Duration,
    killed: Duration,
}

struct Waited {
    /// Whether, and why, they were told to end.
    told: Option<Ending>,
    /// In their order; `None` of one that is not gone.
    reaped: Vec<Option<Reaped>>,
}

/// Waits for all of them, and sends them signals when their time is over. The largest memory that was seen of each goes to `seen`.
fn wait(
    children: &[Child],
    began: Instant,
    bounds: Bounds<'_>,
    timeouts: Timeouts,
    signal: &dyn Fn(libc::c_int),
    seen: &mut [u64],
) -> Waited {
    let mut told: Option<(Ending, Instant)> = None;
    // Threads wait, so that the end is seen when it comes and not at the next look.
    let (send, receive) = std::sync::mpsc::channel();
    for (nth, child) in children.iter().enumerate() {
        let (pid, send) = (child.id().cast_signed(), send.clone());
        std::thread::spawn(move || {
            let reaped = reap(pid);
            let _nobody_waits = send.send((nth, (reaped, Instant::now())));
        });
    }
    let mut killed: Option<Instant> = None;
    // What is over soon is looked at sooner.
    let mut look = Duration::from_millis(2);
    let mut reaped: Vec<Option<Reaped>> = children.iter().map(|_| None).collect();
    while reaped.iter().any(Option::is_none) {
        if let Ok((nth, end)) = receive.recv_timeout(look) {
            reaped[nth] = Some(end);
            continue;
        }
        look = (look * 2).min(LOOK);
        for (child, seen) in children.iter().zip(&mut *seen) {
            *seen = (*seen).max(peak_below(child.id()));
        }
        match (told, killed) {
            (None, _) if bounds.cancel.check().is_err() => told = Some((Ending::Cancelled, Instant::now())),
            (None, _) if began.elapsed() >= bounds.limit => told = Some((Ending::Timeout, Instant::now())),
            (Some((_, since)), None) if since.elapsed() >= timeouts.grace => {
                killed = Some(Instant::now());
                signal(libc::SIGKILL);
                continue;
            }
            // The threads that wait for the rest wait on.
            (_, Some(since)) if since.elapsed() >= timeouts.killed => break,
            _ => continue,
        }
        signal(libc::SIGTERM);
    }
    Waited { told: told.map(|(ending, _)| ending), reaped }
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
        run(&["sh".into(), "-c".into(), script.into()], &[], Bounds { limit, cancel, group: &Group::default() }).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_ending_is_told_with_its_output() {
        let ran = sh("echo out; echo err >&2; exit 3", LONG, &Cancel::default());
        assert_eq!((ran.ending, &ran.stdout[..], &ran.stderr[..]), (Ending::Exit(3), &b"out\n"[..], &b"err\n"[..]));
        assert!(ran.peak_below > 0 && ran.peak.is_none_or(|peak| peak <= ran.peak_below));
        assert_eq!(sh("kill -9 $$", LONG, &Cancel::default()).ending, Ending::Signal(9));
        let missing = run(&["no-such-program".into()], &[], Bounds { limit: LONG, cancel: &Cancel::default(), group: &Group::default() })
            .unwrap_err();
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
    fn what_cannot_be_killed_is_given_up() {
        let cancel = Cancel::default();
        let bounds = Bounds { limit: Duration::from_millis(10), cancel: &cancel, group: &Group::default() };
        let timeouts = Timeouts { grace: Duration::from_millis(10), killed: Duration::from_millis(10) };
        let argv = ["sleep".into(), "600".into()];
        let mut child = begin(&argv, &[], Stdio::null(), None).unwrap();
        let (_, ending) = (child.stdout.take(), child.stderr.take());
        let children = [child];
        let sent = Mutex::new(Vec::new());
        // Nothing that is sent reaches it.
        let waited = wait(&children, Instant::now(), bounds, timeouts, &|signal| sent.lock().unwrap().push(signal), &mut [0]);
        assert!(waited.told == Some(Ending::Timeout) && waited.reaped.len() == 1 && waited.reaped[0].is_none());
        assert_eq!(*sent.lock().unwrap(), [libc::SIGTERM, libc::SIGKILL]);
        drop(ending);
        signal_group(children[0].id().cast_signed(), libc::SIGKILL);
    }

    #[test]
    fn the_group_that_runs_can_be_killed_by_another_thread() {
        let (cancel, group) = (Cancel::default(), Group::default());
        let other = group.clone();
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let killer = std::thread::spawn(move || {
            while receive.recv_timeout(Duration::from_millis(5)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                other.kill();
            }
        });
        let argv = ["sh", "-c", "trap '' TERM; sleep 600 & wait"].map(OsString::from);
        let ran = run(&argv, &[], Bounds { limit: LONG, cancel: &cancel, group: &group }).unwrap();
        drop(send);
        killer.join().unwrap();
        assert_eq!((ran.ending, ran.stuck, group.0.load(Ordering::Acquire)), (Ending::Signal(libc::SIGKILL), None, 0));
    }

    #[test]
    fn programs_read_each_other() {
        let argv = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut input = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut input, b"c\nb\na\n").unwrap();
        std::io::Seek::rewind(&mut input).unwrap();
        let (never, group) = (Cancel::default(), Group::default());
        let long = Bounds { limit: LONG, cancel: &never, group: &group };
        let ran = pipe(&[argv(&["sort"]), argv(&["head", "-n1"])], &[], Some(input), long).unwrap();
        assert_eq!((ran.ending, &ran.stdout[..]), (Ending::Exit(0), &b"a\n"[..]));
        // The reader fails and the writer dies of it: the reader's end counts.
        let ran = pipe(&[argv(&["yes"]), argv(&["sh", "-c", "echo no >&2; exit 4"])], &[], None, long).unwrap();
        assert_eq!((ran.ending, &ran.stderr[..]), (Ending::Exit(4), &b"no\n"[..]));
        let missing = pipe(&[argv(&["sleep", "60"]), argv(&["no-such-program"])], &[], None, long).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let ran = pipe(&[argv(&["sleep", "60"]), argv(&["cat"])], &[], None, Bounds { limit: Duration::from_millis(100), ..long }).unwrap();
        assert_eq!(ran.ending, Ending::Timeout);
    }

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let ran = sh("yes x | head -c 1000000; echo end", LONG, &Cancel::default());
        assert_eq!(ran.stdout.len(), KEPT);
        assert!(ran.stdout.ends_with(b"end\n"));
    }

    #[test]
    fn memory_is_that_of_the_program_and_not_of_who_began_it() {
        let own = own_peak();
        assert!(own > 1 << 20);
        let large = (own >> 20) + 100;
        // dd's block is memory of its own.
        let ran = sh(&format!("exec dd if=/dev/zero of=/dev/null bs={large}M count=1"), LONG, &Cancel::default());
        assert!(ran.peak.is_some_and(|peak| peak > (large << 20)), "{:?} of {large} MiB", ran.peak);
        // A small one does not count as large as this process; it lives long enough to be seen.
        let ballast = std::hint::black_box(vec![1u8; 64 << 20]);
        let small = sh("sleep 0.3", LONG, &Cancel::default());
        assert!(small.peak.is_some_and(|peak| peak > 0 && peak < 32 << 20), "{:?} beside {}", small.peak, ballast.len());
    }

    #[test]
    fn children_count() {
        let ran = sh("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; true", LONG, &Cancel::default());
        assert!(ran.user + ran.system > 0.0);
    }
}
