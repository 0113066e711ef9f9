//! `haul bench net`: reach the host once, measure its round trip, then point after point.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_bench::net::{self, Plan, Point, Remote, SMALL, Window};
use haul_bench::record::{self, Header, Kind, Place, Run, Sample};
use haul_core::cancel::Cancel;
use haul_core::entry::show as safe;
use haul_core::error::{Error, ErrorKind, Result};
use haul_ftp::{Files, FtpHost};
use haul_run::hosts::Hosts;
use haul_ssh::ssh::{Flags, Route, SshHost};

use super::runs::{self, now};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::NetFlags;
use crate::flags::connect::Connect;
use crate::text::things;
use crate::{out, signals, units};

const NOTES: [&str; 2] = [
    "No disk is used: the data are generated and discarded.",
    "Data are counted by the receiver and its clock, after a warm-up; bytes in flight do not count.",
];

/// The round trip is the median of so many.
const PINGS: usize = 21;

pub fn run(flags: &NetFlags, global: &Global) -> Exit {
    bench(flags, global).unwrap_or_else(|e| out::error(&e))
}

fn bench(flags: &NetFlags, global: &Global) -> Result<Exit> {
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref()).printing(out::say);
    let host = hosts.reach(&flags.host)?;
    let files = if flags.host.path.is_empty() { None } else { Some(Files::new(host.path(&flags.host))) };
    let by_ssh = SshHost::of(&*host);
    let remote = match (by_ssh.map(|host| &host.route), FtpHost::of(&*host)) {
        (Some(Route::Agent(host)), _) => Remote::Agent(host),
        (Some(Route::Sftp(host)), _) => Remote::Sftp(host),
        (None, Some(host)) => Remote::Ftp(host, files.as_ref()),
        (None, None) => return Err(Error::new(ErrorKind::Unsupported, "measure").because("is not reached by ssh or FTP")),
    };
    let address = match by_ssh {
        Some(_) => safe(flags.host.host.as_deref().unwrap_or_default().as_bytes()),
        None => safe(&flags.host.to_bytes()),
    };
    let (dir, seed) = directory_and_seed(flags, global);
    let plan = Plan { seed, ..flags.plan.clone() };
    remote.check(&plan)?;
    let mut run = Run::begin(&dir, header(&plan, &address))?;
    let stop = Cancel::default();
    signals::cancels(&stop, "stopping; what was measured is kept (a second signal stops at once)", None, || {})?;
    let tell = |line: &str| {
        if !global.quiet {
            out::say_plainly(line);
        }
    };
    if net::round_trip(&run.samples).is_none() {
        run.add(net::round_trips(&remote, PINGS, now())?)?;
    }
    let round_trip = net::round_trip(&run.samples).and_then(|sample| sample.latency.as_ref()).map_or(0.0, |latency| latency.p50);
    let window = Window::of(plan.seconds, Duration::try_from_secs_f64(round_trip).unwrap_or_default());
    let points = plan.points();
    let left = points.iter().filter(|point| !is_measured(&run, **point)).count();
    tell(&beginning(&address, &plan, window, left, points.len(), &dir));
    let mut ended = None;
    for (number, point) in points.iter().enumerate() {
        if is_measured(&run, *point) {
            continue;
        }
        let (sample, failed) = net::measure(&remote, &plan, *point, window, &stop, now());
        if stop.is_set() {
            // An interrupted measurement is repeated when the run is resumed.
            break;
        }
        tell(&step(number + 1, points.len(), *point, &sample));
        run.add(sample)?;
        if let Some(e) = failed {
            // After a failure the route may differ, and a host that is gone would time out at each point.
            ended = Some(e.at(address.as_bytes()));
            break;
        }
    }
    let interrupted = stop.is_set();
    let (notes, route) = match by_ssh {
        Some(host) => (NOTES, route(&flags.connect, host, &run.samples)),
        None => by_ftp(files.is_some()),
    };
    run.header.notes = notes.map(String::from).into_iter().chain([route]).collect();
    run.finish((ended.is_none() && !interrupted).then(now))?;
    runs::show("bench-net", &run, global)?;
    Ok(match ended {
        Some(e) => out::error_of_document(&e.hint("what was measured is kept; the same command with --out of this run resumes it")),
        None if interrupted => Exit::Signal,
        None => Exit::Success,
    })
}

/// Whether an earlier process has measured a point. Failed ones are repeated, and both are kept.
fn is_measured(run: &Run, point: Point) -> bool {
    let factors = point.factors();
    let same = |s: &&Sample| s.contender == net::CONTENDER && s.factors == factors && s.repetition == point.repetition;
    run.samples.iter().filter(same).any(Sample::counts)
}

/// Where the samples go, and the seed: that of the run to be resumed, if there is one.
fn directory_and_seed(flags: &NetFlags, global: &Global) -> (PathBuf, u64) {
    let dir = runs::directory(flags.out.as_deref(), global, Kind::Net);
    let old = || record::read(&dir).ok().and_then(|(header, _)| header.settings.get("seed")?.as_u64());
    let seed = flags.seed.or_else(old).unwrap_or_else(|| runs::random() >> 32);
    (dir, seed)
}

fn header(plan: &Plan, address: &str) -> Header {
    Header {
        places: vec![Place { role: "host".into(), address: address.into(), ..Place::default() }],
        settings: [("host".to_string(), address.into())].into_iter().chain(record::settings(plan)).collect(),
        notes: NOTES.map(String::from).to_vec(),
        ..runs::header(Kind::Net)
    }
}

/// How the data travelled, and why not by direct connections.
fn route(connect: &Connect, host: &SshHost, samples: &[Sample]) -> String {
    let Route::Agent(agent) = &host.route else {
        return "Route: plain SFTP from /dev/zero and to /dev/null (zeros compress to nothing if ssh_config sets Compression).".into();
    };
    if samples.iter().any(|sample| sample.more.get("route").is_some_and(|route| route == "direct")) {
        return "Route: haul on the remote host, data over direct encrypted TCP connections.".into();
    }
    let not_direct = match agent.why_not_direct() {
        _ if connect.get::<Flags>().no_direct => "as --no-direct asks".into(),
        Some([out, back]) => {
            let reason = |e: &Error| safe(e.reason().as_bytes());
            format!("no other connection can be made: from here {}; from the remote host {}", reason(&out), reason(&back))
        }
        None => "an earlier run could make no other connection, which haul remembers for a day; `haul doctor` tries again".into(),
    };
    format!("Route: haul on the remote host, data through ssh sessions of one login: {not_direct}.")
}

/// The same of an FTP server.
fn by_ftp(has_files: bool) -> ([&'static str; 2], String) {
    let counted = "Sent data are counted when the server's system has acknowledged them, after a warm-up; bytes in flight do not count.";
    let (disk, route) = match has_files {
        true => (
            "The data are generated; the server writes and reads files of its own, which were removed.",
            "Route: FTP transfers in stream mode, of files.",
        ),
        false => (NOTES[0], "Route: FTP transfers in stream mode, from /dev/zero and to /dev/null."),
    };
    ([disk, counted], route.into())
}

/// The first line: the plan, and how long it takes.
fn beginning(host: &str, plan: &Plan, window: Window, left: usize, all: usize, dir: &Path) -> String {
    let each = window.warm_up + window.counted + Duration::from_millis(300);
    let files = if plan.small { format!("files of {}", units::bytes(SMALL)) } else { "large files".into() };
    let directions = match plan.directions[..] {
        [one] => one.word().to_string(),
        _ => "out and in".into(),
    };
    let resumed = if left < all { format!(" ({} of {all} are measured already)", all - left) } else { String::new() };
    format!(
        "network to {host}: {left} measurements of {} each, generated {files} {directions}, seed {}{resumed}; about {}; samples in {}",
        units::duration(window.counted),
        plan.seed,
        units::duration(each * u32::try_from(left).unwrap_or(u32::MAX)),
        safe(dir.as_os_str().as_encoded_bytes())
    )
}

fn step(number: usize, all: usize, point: Point, sample: &Sample) -> String {
    let streams = things(point.streams.into(), "stream");
    let found = match (sample.rate(), &sample.reason) {
        (Some(found), _) => units::rate(found),
        (None, Some(reason)) => format!("failed: {reason}"),
        (None, None) => "nothing arrived".into(),
    };
    format!("{number:>4}/{all} {:<3} {streams}: {found}", point.direction.word())
}
