//! Mounts the slow file system until it is unmounted or told to stop.
//!
//! `haul-slowfs [--metadata-ms N] [--data-ms N] [--threads N] BACKING MOUNTPOINT`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use haul_test::slowfs::{Options, SlowFs, detach};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str = "usage: haul-slowfs [--metadata-ms N] [--data-ms N] [--threads N] BACKING MOUNTPOINT";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("haul-slowfs: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut options = Options::default();
    let mut paths = Vec::new();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let flag = argument.to_string_lossy().into_owned();
        let mut value = || arguments.next().and_then(|v| v.into_string().ok()).ok_or(format!("{flag} wants a value\n{USAGE}"));
        match flag.as_str() {
            "--metadata-ms" => options.metadata_delay = milliseconds(&value()?)?,
            "--data-ms" => options.data_delay = milliseconds(&value()?)?,
            "--threads" => options.threads = value()?.parse().map_err(|_| format!("--threads wants a number\n{USAGE}"))?,
            _ if flag.starts_with("--") => return Err(format!("unknown option {flag}\n{USAGE}")),
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let [backing, mountpoint] = paths.as_slice() else { return Err(USAGE.to_owned()) };
    let mounted = SlowFs::mount_at(backing, mountpoint, options).map_err(|error| error.to_string())?;
    let mountpoint = mounted.path().to_owned();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        for _signal in signals.forever() {
            detach(&mountpoint);
        }
    });
    mounted.wait().map_err(|error| error.to_string())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is no number of milliseconds"))?;
    Duration::try_from_secs_f64(number / 1000.0).map_err(|error| error.to_string())
}
