//! Runs a command beside an object store of its own, see `haul_test::objects`, and ends as the command does.
//!
//! `haul-objects [--server minio|versitygw] [--bucket NAME]... [--round-trip MS] [--count] -- COMMAND...`
//!
//! The command finds address and keys in the variables that clients of S3 read. `--round-trip` makes each request take so many
//! milliseconds longer. `--count` says on standard error how many requests of each method there were, over how many connections.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use haul_test::objects::{ObjectServer, Scripted};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str = "usage: haul-objects [--server minio|versitygw] [--bucket NAME]... [--round-trip MS] [--count] -- COMMAND...";
/// As those of env: the failure is this program's own.
const OWN_FAILURE: u8 = 125;

#[derive(Default)]
struct Call {
    versitygw: bool,
    buckets: Vec<String>,
    round_trip: Duration,
    count: bool,
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    match parse().and_then(|call| run(&call)) {
        Ok(status) => {
            let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(i32::from(OWN_FAILURE));
            ExitCode::from(code as u8)
        }
        Err(message) => {
            eprintln!("haul-objects: {message}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn parse() -> Result<Call, String> {
    let mut call = Call::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let flag = argument.to_string_lossy().into_owned();
        let mut value = || arguments.next().and_then(|v| v.into_string().ok()).ok_or(format!("{flag} wants a value\n{USAGE}"));
        match flag.as_str() {
            "--server" => {
                call.versitygw = match value()?.as_str() {
                    "minio" => false,
                    "versitygw" => true,
                    other => return Err(format!("unknown server {other}\n{USAGE}")),
                }
            }
            "--bucket" => call.buckets.push(value()?),
            "--round-trip" => {
                call.round_trip = Duration::from_millis(value()?.parse().map_err(|_| format!("--round-trip wants milliseconds\n{USAGE}"))?);
            }
            "--count" => call.count = true,
            "--" => call.command.extend(arguments.by_ref()),
            _ => return Err(format!("unknown option {flag}\n{USAGE}")),
        }
    }
    if call.command.is_empty() { Err(USAGE.to_owned()) } else { Ok(call) }
}

fn run(call: &Call) -> Result<ExitStatus, String> {
    // From here on a signal is passed on, so that what was started is stopped in order.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| error.to_string())?;
    let server = if call.versitygw { ObjectServer::versitygw() } else { ObjectServer::minio() }.map_err(|error| error.to_string())?;
    for bucket in &call.buckets {
        server.make_bucket(bucket).map_err(|error| format!("bucket {bucket}: {error}"))?;
    }
    let between = (call.count || !call.round_trip.is_zero()).then(|| Scripted::before(server.endpoint())).transpose();
    let between = between.map_err(|error| error.to_string())?;
    let endpoint = between.as_ref().map_or_else(|| server.endpoint().clone(), |between| between.endpoint(server.endpoint()));
    if let Some(between) = &between {
        between.set_round_trip(call.round_trip);
    }
    let mut command = Command::new(&call.command[0]);
    command.args(&call.command[1..]).env("AWS_ACCESS_KEY_ID", &endpoint.access).env("AWS_SECRET_ACCESS_KEY", &endpoint.secret);
    command.env("AWS_REGION", &endpoint.region).env("AWS_ENDPOINT_URL", &endpoint.url).env("S3_ENDPOINT_URL", &endpoint.url);
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = signals.handle();
    let passing = std::thread::spawn(move || {
        for signal in signals.forever() {
            // A terminal has given SIGINT to the command already.
            let passed = if signal == SIGTERM { Signal::TERM } else { Signal::HUP };
            if let Some(process) = process.filter(|_| signal != SIGINT) {
                let _it_may_be_gone = kill_process(process, passed);
            }
        }
    });
    let status = child.wait().map_err(|error| error.to_string());
    handle.close();
    let _ended = passing.join();
    if let Some(between) = between.filter(|_| call.count) {
        let mut methods = BTreeMap::new();
        for seen in between.requests() {
            *methods.entry(seen.method).or_insert(0_u64) += 1;
        }
        let counts = methods.iter().map(|(method, count)| format!("{count} {method} ({} at once)", between.most_at_once(method)));
        eprintln!("haul-objects: {}; {} connections", counts.collect::<Vec<_>>().join(", "), between.connections());
    }
    status
}
