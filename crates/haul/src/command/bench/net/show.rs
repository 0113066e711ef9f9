//! Progress, notes and the document of a run.

use std::path::Path;
use std::time::Duration;

use haul_bench::net::{self, Curve, Level, Limit, Plan, Point, SMALL, Window};
use haul_bench::record::{self, Sample};
use haul_core::error::Error;
use serde_json::{Value, json};

use crate::units;

/// How the data travel.
pub enum Route {
    /// haul is on the remote host; why its data go through ssh, if they do.
    Agent {
        not_direct: String,
    },
    Sftp,
}

pub struct Outcome<'a> {
    pub host: &'a str,
    pub plan: &'a Plan,
    pub route: Route,
    pub samples: &'a [Sample],
    pub curves: Vec<Curve>,
    pub dir: &'a Path,
    pub error: Option<&'a Error>,
    pub interrupted: bool,
}

/// The first line: what is going to be done, and how long it takes.
pub fn beginning(host: &str, plan: &Plan, window: Window, left: usize, all: usize, dir: &Path) -> String {
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
        haul_core::entry::show(dir.as_os_str().as_encoded_bytes())
    )
}

/// A line for each measurement.
pub fn step(number: usize, all: usize, point: Point, sample: &Sample) -> String {
    let streams = if point.streams == 1 { "1 stream".into() } else { format!("{} streams", point.streams) };
    let found = match (sample.rate(), &sample.reason) {
        (Some(found), _) => units::rate(found),
        (None, Some(reason)) => format!("failed: {reason}"),
        (None, None) => "nothing arrived".into(),
    };
    format!("{number:>4}/{all} {:<3} {streams}: {found}", point.direction.word())
}

fn levels<'a>(outcome: &'a Outcome<'_>) -> impl Iterator<Item = &'a Level> {
    outcome.curves.iter().flat_map(|curve| &curve.levels)
}

fn is_direct(outcome: &Outcome<'_>) -> bool {
    levels(outcome).any(|level| level.route == "direct")
}

/// Gbit/s, to the kbit/s.
fn in_gbit(bytes_a_second: f64) -> f64 {
    (bytes_a_second * 8.0 / 1e3).round() / 1e6
}

/// Parts of a byte mean nothing.
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

fn route_words(outcome: &Outcome<'_>) -> String {
    match &outcome.route {
        Route::Agent { .. } if is_direct(outcome) => "haul on the remote host, data over direct encrypted TCP connections".into(),
        Route::Agent { not_direct } => format!("haul on the remote host, data through ssh sessions of one login: {not_direct}"),
        Route::Sftp => "plain SFTP from /dev/zero and to /dev/null (zeros compress to nothing if ssh_config sets Compression)".into(),
    }
}

fn streams_words(streams: u32) -> String {
    if streams == 1 { "1 stream".into() } else { format!("{streams} streams") }
}

/// What the samples alone do not tell: route, limits, cost.
pub fn notes(outcome: &Outcome<'_>) -> Vec<String> {
    if outcome.curves.is_empty() {
        return Vec::new();
    }
    let route = format!("Route: {}.", route_words(outcome));
    std::iter::once(route).chain(limits_and_costs(outcome)).chain(shared(outcome)).collect()
}

/// What limited the best points, and what they cost.
fn limits_and_costs(outcome: &Outcome<'_>) -> Vec<String> {
    let of = |words: &dyn Fn(&Curve, &str) -> Option<String>| -> Vec<String> {
        outcome.curves.iter().filter_map(|curve| words(curve, curve.direction.word())).collect()
    };
    let mut said = Vec::new();
    let limits = of(&|curve, direction| curve.best().map(|best| format!("{direction} by {}", limit_words(best.limit))));
    said.push(format!("Limited at its best: {}.", limits.join(", ")));
    let costs = of(&|curve, direction| {
        let best = curve.best()?;
        let side = |cpu: Option<f64>, side: &str| cpu.map(|cpu| format!("{cpu:.2} s {side}"));
        let sides: Vec<String> = [side(best.cpu_here, "here"), side(best.cpu_remote, "on the remote host")].into_iter().flatten().collect();
        (!sides.is_empty()).then(|| format!("{direction} {}", sides.join(" and ")))
    });
    if !costs.is_empty() {
        said.push(format!("CPU time per GiB, ssh included: {}.", costs.join(", ")));
    }
    said
}

/// Where fewer links could be made than there were streams.
fn shared(outcome: &Outcome<'_>) -> Option<String> {
    let most = levels(outcome).map(|level| level.links).max()?;
    let short = levels(outcome).find(|level| level.links < level.streams.into())?;
    let links = match short.route.as_str() {
        "direct" => "direct connections",
        "sftp" => "SFTP channels in one ssh connection",
        _ => "ssh sessions in one connection",
    };
    Some(format!("Only {most} {links} could be made: {} and more share them.", streams_words(short.streams)))
}

fn limit_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Network => "the network (CPUs were idle)",
        Limit::ProcessorsHere => "the CPUs here, all busy (the network may carry more)",
        Limit::ProcessorsRemote => "the CPUs of the remote host, all busy (the network may carry more)",
        Limit::SshHere => "ssh here, which used one core fully",
        Limit::SshRemote => "the ssh server on the remote host, which used one core fully",
        Limit::ThreadsHere => "the one core here that each stream uses",
        Limit::ThreadsRemote => "the one core of the remote host that each stream uses",
    }
}

/// Everything that `--json` has. Rates are bytes per second, times seconds. Every key is always there.
pub fn document(outcome: &Outcome<'_>) -> Value {
    let round_trip = net::round_trip(outcome.samples);
    let route = levels(outcome).next().map(|level| &level.route);
    let why_not_direct = match &outcome.route {
        Route::Agent { not_direct } if route.is_some() && !is_direct(outcome) => Some(not_direct),
        _ => None,
    };
    json!({
        "host": outcome.host,
        "way": route,
        "why_not_direct": why_not_direct,
        "round_trip": round_trip.and_then(|sample| sample.latency.as_ref().map(|latency| json!({
            "median": latency.p50,
            "min": sample.more.get("min_seconds"),
            "max": latency.max,
            "count": latency.count,
        }))),
        "seed": outcome.plan.seed,
        "small": outcome.plan.small,
        "directions": outcome.curves.iter().filter_map(direction_found).collect::<Vec<_>>(),
        "failed": outcome.samples.iter().filter(|s| !matches!(s.outcome, record::Outcome::Ok | record::Outcome::Interrupted)).count(),
        "interrupted": outcome.interrupted,
        "error": outcome.error.map(Error::reason),
        "run": outcome.dir.display().to_string(),
    })
}

fn direction_found(curve: &Curve) -> Option<Value> {
    let best = curve.best()?;
    let level = |level: &Level| {
        json!({
            "streams": level.streams,
            "links": level.links,
            "way": level.route,
            "measurements": level.rate.count,
            "rate": whole(level.rate.median),
            "rate_low": whole(level.rate.interval.0),
            "rate_high": whole(level.rate.interval.1),
            "coverage": level.rate.coverage,
            "gbit": in_gbit(level.rate.median),
            "files_rate": level.files,
            "cpu_here_per_gib": level.cpu_here,
            "cpu_there_per_gib": level.cpu_remote,
            "limited_by": level.limit.word(),
        })
    };
    Some(json!({
        "direction": curve.direction.word(),
        "best_streams": best.streams,
        "best_rate": whole(best.rate.median),
        "best_gbit": in_gbit(best.rate.median),
        // `null` where one is best or was not measured.
        "more_than_one_stream": curve.more_than_one(),
        "one_stream_rate": curve.one_stream().map(|one| whole(one.rate.median)),
        // `null` where more may carry more, and where it is not significant.
        "most_streams_lose": curve.most_lose(),
        "limited_by": best.limit.word(),
        "levels": curve.levels.iter().map(level).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use haul_bench::net::Direction;
    use haul_bench::stats::Summary;

    use super::*;

    fn scattered(median: f64) -> [f64; 5] {
        [0.8, 0.9, 1.0, 1.1, 1.2].map(|by| median * by)
    }

    fn curve(direction: Direction, medians: &[(u32, f64)]) -> Curve {
        let level = |(streams, median): &(u32, f64)| Level {
            streams: *streams,
            links: u64::from(*streams).min(8),
            route: "ssh".into(),
            rate: Summary::of(&scattered(*median)).expect("values"),
            rates: scattered(*median).to_vec(),
            files: Some(median / 6500.0),
            cpu_here: Some(1.25),
            cpu_remote: None,
            limit: Limit::SshHere,
        };
        Curve { direction, levels: medians.iter().map(level).collect() }
    }

    fn outcome(plan: &Plan) -> Outcome<'_> {
        let medians = [(1, 101e6), (4, 404e6), (16, 202e6)];
        let curves = vec![curve(Direction::Out, &medians), curve(Direction::In, &medians[..2])];
        let route = Route::Agent { not_direct: "as --no-direct asks".into() };
        Outcome { host: "cluster", plan, route, samples: &[], curves, dir: Path::new("run"), error: None, interrupted: false }
    }

    fn plan(small: bool) -> Plan {
        let directions = Direction::BOTH.to_vec();
        Plan { streams: vec![1, 4, 16], directions, seconds: Duration::from_secs(5), repeat: 5, small, seed: 1 }
    }

    #[test]
    fn the_notes_say_route_limits_and_cost() {
        let plan = plan(false);
        let notes = notes(&outcome(&plan)).join(" ");
        for words in [
            "data through ssh sessions of one login: as --no-direct asks",
            "out by ssh here, which used one core fully",
            "out 1.25 s here, in 1.25 s here",
            "Only 8 ssh sessions in one connection could be made: 16 streams and more share them",
        ] {
            assert!(notes.contains(words), "{words}\n{notes}");
        }
    }

    #[test]
    fn a_difference_that_is_not_significant_is_null() {
        let plan = plan(false);
        let mut few = outcome(&plan);
        for level in few.curves.iter_mut().flat_map(|curve| &mut curve.levels) {
            level.rates.truncate(2);
            level.rate = Summary::of(&level.rates).expect("values");
        }
        let out = &document(&few)["directions"][0];
        assert_eq!((&out["most_streams_lose"], &out["more_than_one_stream"]), (&().into(), &false.into()), "{out}");
        let found = document(&outcome(&plan));
        assert_eq!((&found["directions"][0]["most_streams_lose"], &found["directions"][1]["most_streams_lose"]), (&0.5.into(), &().into()));
        assert_eq!((&found["why_not_direct"], &found["directions"][0]["best_streams"]), (&"as --no-direct asks".into(), &4.into()));
        let none = document(&Outcome { curves: Vec::new(), interrupted: true, ..outcome(&plan) });
        assert!(none["way"].is_null() && none["why_not_direct"].is_null() && none["interrupted"] == true, "{none}");
    }
}
