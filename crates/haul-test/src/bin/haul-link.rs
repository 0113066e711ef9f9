//! Runs a command at one end of an emulated link, see `haul_test::link`, and ends as the command does.
//!
//! `haul-link [--delay 25ms] [--rate 125M] [--loss 0.001] [--queue 8M] [--mtu N] [--seed N] [--count] [--far COMMAND] -- COMMAND...`
//!
//! The command runs in the near namespace, with the other end's address in `HAUL_FAR` and its own in `HAUL_NEAR`. What `--far` gives (or
//! the variable `HAUL_FAR_EXEC`) is started first in the far one, by the shell, and stopped at the end with all that it started. `--count`
//! says on standard error what passed. Sizes take K, M and G (1,000, not 1,024), rates are bytes a second, delays take us, ms (the default) or s.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use haul_test::link::{Link, Options, Traffic};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str = "usage: haul-link [--delay 25ms] [--rate 125M] [--loss 0.001] [--queue 8M] [--mtu N] [--seed N] [--count]\n\
                     \x20                [--far COMMAND] -- COMMAND...";
/// As those of env: the failure is this program's own.
const OWN_FAILURE: u8 = 125;

struct Call {
    options: Options,
    far: Option<String>,
    count: bool,
    command: Vec<std::ffi::OsString>,
}

fn main() -> ExitCode {
    match parse().and_then(|call| run(&call)) {
        Ok(status) => {
            let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(i32::from(OWN_FAILURE));
            ExitCode::from(code as u8)
        }
        Err(message) => {
            eprintln!("haul-link: {message}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn parse() -> Result<Call, String> {
    let mut call = Call { options: Options::default(), far: std::env::var("HAUL_FAR_EXEC").ok(), count: false, command: Vec::new() };
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let flag = argument.to_string_lossy().into_owned();
        let mut value = || arguments.next().and_then(|v| v.into_string().ok()).ok_or(format!("{flag} wants a value\n{USAGE}"));
        let options = &mut call.options;
        match flag.as_str() {
            "--delay" => options.delay = duration(&value()?)?,
            "--rate" => options.rate = Some(size(&value()?)?),
            "--loss" => options.loss = value()?.parse().map_err(|_| format!("--loss wants a share\n{USAGE}"))?,
            "--queue" => options.queue = Some(size(&value()?)?),
            "--mtu" => options.mtu = value()?.parse().map_err(|_| format!("--mtu wants bytes\n{USAGE}"))?,
            "--seed" => options.seed = value()?.parse().map_err(|_| format!("--seed wants a number\n{USAGE}"))?,
            "--far" => call.far = Some(value()?),
            "--count" => call.count = true,
            "--" => call.command.extend(arguments.by_ref()),
            _ => return Err(format!("unknown option {flag}\n{USAGE}")),
        }
    }
    if call.command.is_empty() { Err(USAGE.to_owned()) } else { Ok(call) }
}

fn run(call: &Call) -> Result<ExitStatus, String> {
    let link = Link::new(call.options.clone()).map_err(|error| error.to_string())?;
    // From here on a signal is passed on, so that the link is taken down in order.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| error.to_string())?;
    let server = call.far.as_ref().map(|line| Server::start(&link, line)).transpose()?;
    let mut command = link.near().command(&call.command[0]);
    command.args(&call.command[1..]).env("HAUL_FAR", link.far().address().to_string()).env("HAUL_NEAR", link.near().address().to_string());
    let mut child = spawn(&mut command)?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let passing = std::thread::spawn(move || {
        for signal in signals.forever() {
            // A terminal has given SIGINT to the command already.
            let passed = match signal {
                SIGTERM => Signal::TERM,
                SIGHUP => Signal::HUP,
                _ => continue,
            };
            if let Some(process) = process {
                // It may be gone.
                let _ = kill_process(process, passed);
            }
        }
    });
    let status = child.wait().map_err(|error| error.to_string());
    handle.close();
    let _ = passing.join();
    drop(server);
    if call.count {
        eprintln!("haul-link: forth {}\nhaul-link: back  {}", shown(link.forth()), shown(link.back()));
    }
    status
}

/// Starts a command that the kernel kills when this program is killed.
fn spawn(command: &mut Command) -> Result<Child, String> {
    // SAFETY: between fork and exec this makes one system call.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))
}

fn shown(traffic: Traffic) -> String {
    let Traffic { packets, bytes, lost, overflowed } = traffic;
    format!("{packets} packets, {bytes} bytes; lost {lost}, dropped by a full queue {overflowed}")
}

/// The far command and its process group.
struct Server(Child);

impl Server {
    fn start(link: &Link, line: &str) -> Result<Server, String> {
        let mut command = link.far().command("/bin/sh");
        command.args(["-c", line]).process_group(0);
        command.env("HAUL_FAR", link.far().address().to_string()).env("HAUL_NEAR", link.near().address().to_string());
        Ok(Server(spawn(&mut command)?))
    }
}

impl Drop for Server {
    /// Asks it to end; what has not ended within two seconds is killed, here or with the link.
    fn drop(&mut self) {
        let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) else { return };
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // It may be gone.
        let _ = kill_process_group(group, Signal::TERM);
        let until = Instant::now() + Duration::from_secs(2);
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() > until {
                // It may be gone.
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// `125M` is 125,000,000.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(format!("{text:?} is no size")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no size"))?;
    number.checked_mul(unit).ok_or(format!("{text:?} is too large"))
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" | "" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("{text:?} is no time")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{text:?} is no time"))?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| format!("{text:?}: {error}"))
}
