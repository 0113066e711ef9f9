//! `haul bench net`: reach the host once, ask for its round trip, measure point after point, say what was found.

mod show;

use haul_stores::ssh::{Flags, Route, SshHost};
use std::path::PathBuf;
use std::time::Duration;

use haul_bench::net::{self, Far, Findings, Plan, Point, Window};
use haul_bench::record::{self, Header, Kind, Place, Run, Sample};
use haul_core::cancel::Cancel;
use haul_core::entry::show as safe;
use haul_core::error::{Error, ErrorKind, Result};

use super::kept;
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::NetFlags;
use crate::hosts::Hosts;
use crate::{out, units};

/// What every reader must know.
const NOTES: [&str; 2] = [
    "No disk takes part: made-up files, and a destination that keeps nothing.",
    "Data are counted where they arrive, by the clock there, after a warm-up; bytes in flight do not count.",
];

/// Questions of which the round trip is the median.
const QUESTIONS: usize = 21;

pub fn run(flags: &NetFlags, global: &Global) -> Exit {
    match bench(flags, global) {
        Ok(exit) => exit,
        Err(e) => out::error(&e),
    }
}

fn bench(flags: &NetFlags, global: &Global) -> Result<Exit> {
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref());
    let host = hosts.reach(&flags.host)?;
    let host = SshHost::of(&*host).ok_or_else(|| Error::new(ErrorKind::Unsupported, "measure").because("is not reached by ssh"))?;
    let far = match &host.route {
        Route::Agent(host) => Far::Agent(host),
        Route::Sftp(host) => Far::Sftp(host),
    };
    let address = safe(flags.host.host.as_deref().unwrap_or_default().as_bytes());
    let (dir, seed) = place(flags, global);
    let plan = Plan {
        streams: flags.streams.clone(),
        directions: flags.directions.clone(),
        seconds: flags.seconds,
        repeat: flags.repeat,
        small: flags.small,
        seed,
    };
    far.check(&plan)?;
    let mut run = Run::begin(&dir, header(&plan, &address))?;
    let stop = Cancel::default();
    super::signals::listen(&stop, "stopping; what was measured is kept (a second signal stops at once)", None);
    let tell = |line: &str| {
        if !global.quiet {
            out::say_plainly(line);
        }
    };
    if net::round_trip(&run.samples).is_none() {
        run.add(net::round_trips(&far, QUESTIONS, now())?)?;
    }
    let round_trip = net::round_trip(&run.samples).map_or(0.0, |latency| latency.p50);
    let window = Window::of(plan.seconds, Duration::try_from_secs_f64(round_trip).unwrap_or_default());
    let points = plan.points();
    let left = points.iter().filter(|point| !is_measured(&run, **point)).count();
    tell(&show::beginning(&address, &plan, window, left, points.len(), &dir));
    let mut ended = None;
    for (number, point) in points.iter().enumerate() {
        if is_measured(&run, *point) {
            continue;
        }
        let (sample, failed) = net::measure(&far, &plan, *point, window, &stop, now());
        if stop.is_set() {
            // What was half measured is measured again when the run goes on.
            break;
        }
        tell(&show::step(number + 1, points.len(), *point, &sample));
        run.add(sample)?;
        if let Some(e) = failed {
            // Where one fails the way is not what it was; and a host that is gone would be waited for at each.
            ended = Some(e.at(address.as_bytes()));
            break;
        }
    }
    let interrupted = stop.is_set();
    let complete = ended.is_none() && !interrupted;
    let outcome = show::Outcome {
        host: &address,
        plan: &plan,
        way: why(&flags.connect, host),
        findings: Findings::of(&run.samples),
        dir: &dir,
        error: ended.as_ref(),
        interrupted,
    };
    run.header.notes = NOTES.map(String::from).into_iter().chain(show::notes(&outcome)).collect();
    run.finish(complete.then(now))?;
    let shown = match (global.json, global.quiet) {
        (false, _) => out::print(show::text(&outcome).as_bytes()),
        (true, quiet) => {
            if !quiet {
                out::say_plainly(show::text(&outcome).trim_end());
            }
            let document = serde_json::to_string(&show::document(&outcome, now()));
            out::print(format!("{}\n", document.map_err(|e| Error::new(ErrorKind::Other, "write").because(e.to_string()))?).as_bytes())
        }
    };
    shown.map_err(|e| Error::io(e, "write"))?;
    kept::page(&dir, global);
    Ok(match ended {
        Some(e) => out::error_of_document(&e.hint("what was measured is kept; the same command with --out of this run goes on")),
        None if interrupted => Exit::Signal,
        None => Exit::Success,
    })
}

/// Whether an earlier process has measured a point. What failed then is tried anew, and both are kept.
fn is_measured(run: &Run, point: Point) -> bool {
    let factors = point.factors();
    let same = |s: &&Sample| s.contender == net::CONTENDER && s.factors == factors && s.repetition == point.repetition;
    run.samples.iter().filter(same).any(Sample::counts)
}

/// Where the samples go, and the seed: that of the run that lies there, where there is one to go on with.
fn place(flags: &NetFlags, global: &Global) -> (PathBuf, u64) {
    let drawn = || std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0_u8) >> 32;
    let dir = kept::directory(flags.out.as_deref(), global, Kind::Net);
    let there = || record::read(&dir).ok().and_then(|(header, _)| header.settings.get("seed")?.as_u64());
    let seed = flags.seed.or_else(there).unwrap_or_else(drawn);
    (dir, seed)
}

fn header(plan: &Plan, address: &str) -> Header {
    use std::hash::BuildHasher;
    let id = std::collections::hash_map::RandomState::new().hash_one(std::process::id());
    Header {
        kind: Kind::Net,
        id: format!("{id:016x}"),
        started: now(),
        command: std::env::args_os().map(|word| safe(word.as_encoded_bytes())).collect(),
        host: record::Host::here(env!("CARGO_PKG_VERSION")),
        places: vec![Place { role: "host".into(), address: address.into(), ..Place::default() }],
        settings: plan.settings(address),
        notes: NOTES.map(String::from).to_vec(),
        ..Header::default()
    }
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Why the data go the way that they go.
fn why(connect: &crate::flags::connect::Connect, host: &SshHost) -> show::Way {
    match &host.route {
        Route::Agent(agent) => show::Way::Agent {
            not_direct: match agent.why_not_direct() {
                _ if connect.get::<Flags>().no_direct => "as --no-direct asks".into(),
                Some([out, back]) => {
                    format!(
                        "no other connection can be made: from here {}; from there {}",
                        safe(out.reason().as_bytes()),
                        safe(back.reason().as_bytes())
                    )
                }
                None => {
                    "an earlier run could make no other connection, which haul takes for granted for a day; `haul doctor` tries anew".into()
                }
            },
        },
        Route::Sftp(_) => show::Way::Sftp,
    }
}

/// `512 MiB/s`.
fn rate(bytes_a_second: f64) -> String {
    units::rate(bytes_a_second)
}
