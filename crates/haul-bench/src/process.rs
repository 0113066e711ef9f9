//! A contender as a process of its own: how long it took, what it cost, how it ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, Write};
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

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// How long a killed process may take to end: one that waits in the kernel for a disk or a server may never do so.
const KILLED: Duration = Duration::from_secs(30);

/// The process group that is running, so that another thread can kill it. Clones refer to the same group.
#[derive(Clone, Debug, Default)]
pub struct Group(Arc<AtomicI32>);

impl Group {
    pub fn kill(&self) {
        signal_group(self.0.load(Ordering::Acquire), libc::SIGKILL);
    }

    fn is(&self, child: Option<&Child>) {
        self.0.store(child.map_or(0, |child| child.id().cast_signed()), Ordering::Release);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    pub limit: Duration,
    pub cancel: &'a Cancel,
    pub group: &'a Group,
}

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
    /// A process that was killed and still runs: it may still write.
    pub stuck: Option<u32>,
    /// The last 64 KiB of each.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    Timeout,
    /// It was killed because the whole run was to stop.
    Cancelled,
}

/// A file in memory with this text, to be read by a program.
pub fn unnamed(text: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

/// Runs a program to its end: [`pipe`] of one.
pub fn run(argv: &[OsString], env: &[(OsString, OsString)], bounds: Bounds<'_>) -> Result<Ran> {
    pipe(&[argv.to_vec()], env, None, bounds)
}

/// Runs programs to their end, in a process group of their own, each reading what the one before it writes; the first reads
/// `input`, or nothing.
///
/// No shell reads the arguments. When the limit has passed or the run is cancelled, the group gets SIGTERM and, two seconds
/// later, SIGKILL; a process that still runs 30 seconds after that is given up. They are killed too when the thread ends that called this,
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
                    let _ = child.wait();
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
    let Waited { stopped, reaped } = wait(&children, began, bounds, Timeouts { grace: GRACE, killed: KILLED }, &signal, &mut seen);
    // Their children must not run beside the next contender.
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
    if let Some(stopped) = stopped {
        ran.ending = stopped;
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

/// How long a process may take to end: after SIGTERM, and after SIGKILL.
struct Timeouts {
    grace: Duration,
    killed: Duration,
}

struct Waited {
    /// Why they were stopped, if they were.
    stopped: Option<Ending>,
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
    let mut stopped: Option<(Ending, Instant)> = None;
    // Threads wait, so that the end is seen when it comes and not at the next look.
    let (send, receive) = std::sync::mpsc::channel();
    for (nth, child) in children.iter().enumerate() {
        let (pid, send) = (child.id().cast_signed(), send.clone());
        std::thread::spawn(move || {
            let reaped = reap(pid);
            // The receiver may have given up.
            let _ = send.send((nth, (reaped, Instant::now())));
        });
    }
    let mut killed: Option<Instant> = None;
    // Short processes are examined sooner.
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
        match (stopped, killed) {
            (None, _) if bounds.cancel.check().is_err() => stopped = Some((Ending::Cancelled, Instant::now())),
            (None, _) if began.elapsed() >= bounds.limit => stopped = Some((Ending::Timeout, Instant::now())),
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
    Waited { stopped: stopped.map(|(ending, _)| ending), reaped }
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

    /// A process that left the group may hold the pipe open: the end is not awaited for long.
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
mod tests;
