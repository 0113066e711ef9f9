//! What was found, as a person reads it and as JSON.

use std::path::Path;
use std::time::Duration;

use haul_bench::net::{Beyond, Curve, Findings, Gain, Level, Limit, Plan, Point, SMALL, Window};
use haul_bench::record::Sample;
use haul_core::error::Error;
use serde::Serialize;

use super::rate;
use crate::command::doctor::time;
use crate::render::{JSON_VERSION, fold};
use crate::units;

/// Columns of a line, and of the words that name it.
const WIDTH: usize = 80;
const NAMES: usize = 14;

pub enum Way {
    /// haul is there; why its data go through ssh, where they do.
    Agent {
        not_direct: String,
    },
    Sftp,
}

pub struct Outcome<'a> {
    pub host: &'a str,
    pub plan: &'a Plan,
    pub way: Way,
    pub findings: Findings,
    pub dir: &'a Path,
    pub error: Option<&'a Error>,
    pub interrupted: bool,
}

/// The first line: what is going to be done, and how long it takes.
pub fn beginning(host: &str, plan: &Plan, window: Window, left: usize, all: usize, dir: &Path) -> String {
    let each = window.warm_up + window.counted + Duration::from_millis(300);
    let files = if plan.small { format!("files of {}", units::bytes(SMALL)) } else { "large files".into() };
    let ways = match plan.directions[..] {
        [one] => one.word().to_string(),
        _ => "out and in".into(),
    };
    let goes_on = if left < all { format!(" ({} of {all} are measured already)", all - left) } else { String::new() };
    format!(
        "measures the network to {host}: {left} measurements of {} each, made-up {files} {ways}, rounds ordered by seed {}{goes_on}; about {}; samples go to {}",
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
        (Some(found), _) => rate(found),
        (None, Some(reason)) => format!("failed: {reason}"),
        (None, None) => "nothing arrived".into(),
    };
    format!("{number:>4}/{all} {:<3} {streams}: {found}", point.direction.word())
}

pub fn text(outcome: &Outcome<'_>) -> String {
    let mut block = Block::default();
    let ending = match (outcome.error, outcome.interrupted) {
        (Some(_), _) => " (ended early by a failure)",
        (None, true) => " (interrupted)",
        (None, false) => "",
    };
    block.whole(&format!("{}: network throughput, without any disk{ending}", outcome.host));
    block.add("route", &way_words(outcome));
    if let Some(asked) = &outcome.findings.round_trip {
        let least = outcome.findings.round_trip_least.map_or(String::new(), |least| format!("{} to ", time(least)));
        block.add("round trip", &format!("{} ({least}{}, {} questions)", time(asked.p50), time(asked.max), asked.count));
    }
    let curves = &outcome.findings.curves;
    if !curves.is_empty() {
        block.0.push('\n');
        for curve in curves {
            block.0.push_str(&table(curve, outcome.plan.small));
        }
        block.whole(&confidence(curves));
        block.0.push('\n');
        for sentence in sentences(outcome) {
            block.whole(&sentence);
        }
    }
    if outcome.findings.failed > 0 {
        block.whole(&format!("Measurements that failed: {}.", outcome.findings.failed));
    }
    block.whole(&format!("Samples: {}", haul_core::entry::show(outcome.dir.as_os_str().as_encoded_bytes())));
    if outcome.interrupted {
        block.whole("The same command with --out of this directory goes on where this one stopped.");
    }
    block.0
}

#[derive(Default)]
struct Block(String);

impl Block {
    fn add(&mut self, name: &str, words: &str) {
        self.lines(&format!("  {name:<width$}{words}", width = NAMES - 2), NAMES);
    }

    fn whole(&mut self, line: &str) {
        self.lines(line, 2);
    }

    fn lines(&mut self, line: &str, indent: usize) {
        for line in fold(line, WIDTH, indent) {
            self.0.push_str(&line);
            self.0.push('\n');
        }
    }
}

fn levels<'a>(outcome: &'a Outcome<'_>) -> impl Iterator<Item = &'a Level> {
    outcome.findings.curves.iter().flat_map(|curve| &curve.levels)
}

fn is_direct(outcome: &Outcome<'_>) -> bool {
    levels(outcome).any(|level| level.way == "direct")
}

/// Gbit/s, to the kbit/s.
fn in_gbit(bytes_a_second: f64) -> f64 {
    (bytes_a_second * 8.0 / 1e3).round() / 1e6
}

/// Parts of a byte mean nothing.
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

fn way_words(outcome: &Outcome<'_>) -> String {
    match &outcome.way {
        Way::Agent { .. } if outcome.findings.curves.is_empty() => "haul there".into(),
        Way::Agent { .. } if is_direct(outcome) => "haul there; data over encrypted connections of its own beside ssh".into(),
        Way::Agent { not_direct } => format!("haul there; data through ssh sessions of one login: {not_direct}"),
        Way::Sftp => "plain SFTP: zeros of /dev/zero come in, /dev/null takes what goes out (zeros shrink to nothing where ssh_config has \
                      Compression)"
            .into(),
    }
}

/// One row for each number of streams.
fn table(curve: &Curve, small: bool) -> String {
    let files = |text: &str| if small { format!(" {text:>9}") } else { String::new() };
    let mut out = format!("streams  {:>10} {:>11} {:>11} {:>9}{}\n", curve.direction.word(), "from", "to", "Gbit/s", files("files/s"));
    for level in &curve.levels {
        let (from, to) = level.rate.interval;
        let (median, gbit) = (rate(level.rate.median), gbit(level.rate.median));
        let files = files(&units::count(level.files.round() as u64));
        out.push_str(&format!("{:>7}  {median:>10} {:>11} {:>11} {gbit:>9}{files}\n", level.streams, rate(from), rate(to)));
    }
    out
}

/// Gbit/s, as networks are sold: three digits.
fn gbit(bytes_a_second: f64) -> String {
    let gbit = bytes_a_second * 8.0 / 1e9;
    match gbit {
        g if g < 0.9995 => format!("{g:.3}"),
        g if g < 9.995 => format!("{g:.2}"),
        g => format!("{g:.1}"),
    }
}

/// `57.0 MiB/s (0.478 Gbit/s)`.
fn both_units(bytes_a_second: f64) -> String {
    format!("{} ({} Gbit/s)", rate(bytes_a_second), gbit(bytes_a_second))
}

/// What the bounds in the table are.
fn confidence(curves: &[Curve]) -> String {
    let all = || curves.iter().flat_map(|curve| &curve.levels).map(|level| &level.rate);
    let (least, most) = (all().map(|rate| rate.count).min().unwrap_or(0), all().map(|rate| rate.count).max().unwrap_or(0));
    let coverage = all().map(|rate| rate.coverage).fold(1.0, f64::min);
    let runs = match (least, most) {
        (1, 1) => return "Medians of 1 measurement each: nothing is known of how they vary; --repeat 6 tells.".into(),
        (least, most) if least == most => format!("{most} measurements each"),
        (least, most) => format!("{least} to {most} measurements each"),
    };
    let hint = if coverage < 0.95 { "; --repeat 6 gives 95 %" } else { "" };
    format!("Medians of {runs}; each lies between its bounds with a probability of {:.0} %{hint}.", coverage * 100.0)
}

fn streams_words(streams: u32) -> String {
    if streams == 1 { "1 stream".into() } else { format!("{streams} streams") }
}

/// Joined as a sentence has it.
fn both(parts: &[String]) -> String {
    parts.join(", ")
}

/// What the samples alone do not tell, for whoever reads the run later.
pub fn notes(outcome: &Outcome<'_>) -> Vec<String> {
    if outcome.findings.curves.is_empty() {
        return Vec::new();
    }
    let route = format!("Route: {}.", way_words(outcome));
    std::iter::once(route).chain(limits_and_costs(outcome)).chain(shared(outcome)).collect()
}

fn sentences(outcome: &Outcome<'_>) -> Vec<String> {
    let curves = &outcome.findings.curves;
    let of = |words: &dyn Fn(&Curve, &str) -> Option<String>| -> Vec<String> {
        curves.iter().filter_map(|curve| words(curve, curve.direction.word())).collect()
    };
    let mut said = Vec::new();
    let most =
        of(&|curve, way| curve.best().map(|best| format!("{} {way} with {}", both_units(best.rate.median), streams_words(best.streams))));
    said.push(format!("The network carries at most {}.", both(&most)));
    let one = of(&|curve, way| {
        let one = curve.one_stream()?;
        let doubt = if matches!(curve.over_one(), Some(Gain::NotSignificant(_))) { " (the difference is not significant)" } else { "" };
        (curve.levels.len() > 1).then(|| format!("{} {way}{doubt}", rate(one.rate.median)))
    });
    if !one.is_empty() {
        said.push(format!("One stream gets {}.", both(&one)));
    }
    said.extend(curves.iter().filter_map(beyond));
    said.extend(too_few(curves));
    said.extend(limits_and_costs(outcome));
    said.extend(shared(outcome));
    if outcome.findings.curves.iter().any(|curve| curve.levels.len() > 1) {
        said.push("`--streams N` of haul cp, sync and mv fixes the number, which they find by themselves else.".into());
    }
    said.push(
        "A copy that is slower than this is held back by the storage of one of its ends: `haul bench files` measures a storage, `haul \
         bench compare SRC DST` all of it together."
            .into(),
    );
    said
}

/// What limited the best points, and what they cost.
fn limits_and_costs(outcome: &Outcome<'_>) -> Vec<String> {
    let of = |words: &dyn Fn(&Curve, &str) -> Option<String>| -> Vec<String> {
        outcome.findings.curves.iter().filter_map(|curve| words(curve, curve.direction.word())).collect()
    };
    let mut said = Vec::new();
    let limits = of(&|curve, way| curve.best().map(|best| format!("{way} by {}", limit_words(best.limit))));
    said.push(format!("At its best it was limited {}.", both(&limits)));
    let costs = of(&|curve, way| {
        let best = curve.best()?;
        let side = |cpu: Option<f64>, side: &str| cpu.map(|cpu| format!("{cpu:.2} s {side}"));
        let sides: Vec<String> = [side(best.cpu_here, "here"), side(best.cpu_there, "there")].into_iter().flatten().collect();
        (!sides.is_empty()).then(|| format!("{way} {}", sides.join(" and ")))
    });
    if !costs.is_empty() {
        said.push(format!("A GiB costs this much processor time, that of ssh included: {}.", both(&costs)));
    }
    said
}

fn beyond(curve: &Curve) -> Option<String> {
    let (best, last, way) = (curve.best()?, curve.levels.last()?, curve.direction.word());
    Some(match curve.beyond()? {
        Beyond::Unknown => format!("More than {} were not tried {way} and may carry more.", streams_words(last.streams)),
        Beyond::Most(Gain::None) => format!("No gain {way} beyond {}.", streams_words(best.streams)),
        Beyond::Most(Gain::Significant(gain)) => {
            let lost = format!("{} lose {:.0} %", streams_words(last.streams), -gain * 100.0);
            format!("No gain {way} beyond {}; {lost}.", streams_words(best.streams))
        }
        Beyond::Most(Gain::NotSignificant(gain)) => {
            let less = format!("{} carry {:.0} % less in the median", streams_words(last.streams), -gain * 100.0);
            format!("No gain {way} beyond {}; {less}, which is not significant.", streams_words(best.streams))
        }
    })
}

/// Why no difference can be shown, where that lies in the number of measurements.
fn too_few(curves: &[Curve]) -> Option<String> {
    let in_doubt = |curve: &&Curve| {
        matches!(curve.over_one(), Some(Gain::NotSignificant(_))) || matches!(curve.beyond(), Some(Beyond::Most(Gain::NotSignificant(_))))
    };
    let few = |curve: &Curve| curve.levels.iter().any(|level| level.rate.count < 4);
    curves.iter().filter(in_doubt).any(few).then(|| "Fewer than 4 measurements of each cannot show a difference; --repeat 6 can.".into())
}

/// Where fewer links could be made than there were streams.
fn shared(outcome: &Outcome<'_>) -> Option<String> {
    let most = levels(outcome).map(|level| level.links).max()?;
    let short = levels(outcome).find(|level| level.links < level.streams.into())?;
    let links = match short.way.as_str() {
        "direct" => "connections beside ssh",
        "sftp" => "SFTP channels in one ssh connection",
        _ => "ssh sessions in one connection",
    };
    Some(format!("There were no more than {most} {links}: {} and more share them.", streams_words(short.streams)))
}

fn limit_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Way => "the network (processors were idle)",
        Limit::ProcessorsHere => "the processors here, all of which were busy (the network may carry more)",
        Limit::ProcessorsThere => "the processors there, all of which were busy (the network may carry more)",
        Limit::SshHere => "ssh here, which used up one processor",
        Limit::SshThere => "the ssh server there, which used up one processor",
        Limit::ThreadsHere => "the one processor here that each stream uses",
        Limit::ThreadsThere => "the one processor there that each stream uses",
    }
}

/// All that `--json` prints. Rates are bytes a second, times seconds. Every key is always there.
#[derive(Debug, Serialize)]
pub struct Document {
    event: &'static str,
    time: String,
    version: u32,
    host: String,
    /// `direct`, `ssh`, `sftp`; `null` where nothing was measured.
    way: Option<String>,
    why_not_direct: Option<String>,
    round_trip: Option<RoundTrip>,
    seed: u64,
    small: bool,
    directions: Vec<DirectionFound>,
    failed: usize,
    interrupted: bool,
    error: Option<String>,
    run: String,
}

#[derive(Debug, Serialize)]
struct RoundTrip {
    median: f64,
    min: Option<f64>,
    max: f64,
    count: u64,
}

#[derive(Debug, Serialize)]
struct DirectionFound {
    direction: &'static str,
    best_streams: u32,
    best_rate: u64,
    one_stream_rate: Option<u64>,
    /// Gbit/s.
    best_gbit: f64,
    /// Whether the best rate is significantly above that of one stream; `null` where one is best or was not measured.
    more_than_one_stream: Option<bool>,
    /// Share of the best rate that the most streams lose, 0 to 1; `null` where more may carry more, and where it is not
    /// significant.
    most_streams_lose: Option<f64>,
    limited_by: &'static str,
    levels: Vec<LevelFound>,
}

#[derive(Debug, Serialize)]
struct LevelFound {
    streams: u32,
    links: u64,
    way: String,
    measurements: usize,
    rate: u64,
    rate_low: u64,
    rate_high: u64,
    coverage: f64,
    /// Gbit/s.
    gbit: f64,
    files_rate: f64,
    cpu_here_per_gib: Option<f64>,
    cpu_there_per_gib: Option<f64>,
    limited_by: &'static str,
}

pub fn document(outcome: &Outcome<'_>, time: String) -> Document {
    let findings = &outcome.findings;
    let way = levels(outcome).next().map(|level| level.way.clone());
    let why_not_direct = match &outcome.way {
        Way::Agent { not_direct } if way.is_some() && !is_direct(outcome) => Some(not_direct.clone()),
        _ => None,
    };
    Document {
        event: "bench-net",
        time,
        version: JSON_VERSION,
        host: outcome.host.to_string(),
        way,
        why_not_direct,
        round_trip: findings.round_trip.as_ref().map(|asked| RoundTrip {
            median: asked.p50,
            min: findings.round_trip_least,
            max: asked.max,
            count: asked.count,
        }),
        seed: outcome.plan.seed,
        small: outcome.plan.small,
        directions: findings.curves.iter().filter_map(direction_found).collect(),
        failed: findings.failed,
        interrupted: outcome.interrupted,
        error: outcome.error.map(|e| e.reason()),
        run: outcome.dir.display().to_string(),
    }
}

fn direction_found(curve: &Curve) -> Option<DirectionFound> {
    let best = curve.best()?;
    let level = |level: &Level| LevelFound {
        streams: level.streams,
        links: level.links,
        way: level.way.clone(),
        measurements: level.rate.count,
        rate: whole(level.rate.median),
        rate_low: whole(level.rate.interval.0),
        rate_high: whole(level.rate.interval.1),
        coverage: level.rate.coverage,
        gbit: in_gbit(level.rate.median),
        files_rate: level.files,
        cpu_here_per_gib: level.cpu_here,
        cpu_there_per_gib: level.cpu_there,
        limited_by: level.limit.word(),
    };
    Some(DirectionFound {
        direction: curve.direction.word(),
        best_streams: best.streams,
        best_rate: whole(best.rate.median),
        best_gbit: in_gbit(best.rate.median),
        more_than_one_stream: match curve.over_one() {
            Some(Gain::Significant(_)) => Some(true),
            Some(Gain::NotSignificant(_) | Gain::None) => Some(false),
            None => None,
        },
        one_stream_rate: curve.one_stream().map(|one| whole(one.rate.median)),
        most_streams_lose: match curve.beyond() {
            Some(Beyond::Most(Gain::Significant(gain))) => Some(-gain),
            Some(Beyond::Most(Gain::None)) => Some(0.0),
            Some(Beyond::Unknown | Beyond::Most(Gain::NotSignificant(_))) | None => None,
        },
        limited_by: best.limit.word(),
        levels: curve.levels.iter().map(level).collect(),
    })
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
            way: "ssh".into(),
            rate: Summary::of(&scattered(*median)).expect("values"),
            rates: scattered(*median).to_vec(),
            files: median / 6500.0,
            cpu_here: Some(1.25),
            cpu_there: None,
            limit: Limit::SshHere,
        };
        Curve { direction, levels: medians.iter().map(level).collect() }
    }

    fn outcome(plan: &Plan) -> Outcome<'_> {
        let medians = [(1, 101e6), (4, 404e6), (16, 202e6)];
        let curves = vec![curve(Direction::Out, &medians), curve(Direction::In, &medians[..2])];
        let findings = Findings { round_trip: None, round_trip_least: None, curves, failed: 2 };
        let way = Way::Agent { not_direct: "as --no-direct asks".into() };
        Outcome { host: "cluster", plan, way, findings, dir: Path::new("run"), error: None, interrupted: false }
    }

    fn plan(small: bool) -> Plan {
        let directions = Direction::BOTH.to_vec();
        Plan { streams: vec![1, 4, 16], directions, seconds: Duration::from_secs(5), repeat: 5, small, seed: 1 }
    }

    #[test]
    fn it_fits_the_line_and_says_what_was_found() {
        for small in [false, true] {
            let plan = plan(small);
            let text = text(&outcome(&plan));
            let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
            assert!(long.is_empty(), "{long:?}");
            let whole = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for words in [
                "data through ssh sessions of one login: as --no-direct asks",
                "The network carries at most 385 MiB/s (3.23 Gbit/s) out with 4 streams, 385 MiB/s (3.23 Gbit/s) in with 4 streams.",
                "One stream gets 96.3 MiB/s out, 96.3 MiB/s in.",
                "No gain out beyond 4 streams; 16 streams lose 50 %.",
                "More than 4 streams were not tried in and may carry more.",
                "limited out by ssh here, which used up one processor",
                "out 1.25 s here, in 1.25 s here",
                "no more than 8 ssh sessions in one connection: 16 streams and more share them",
                "5 measurements each; each lies between its bounds with a probability of 94 %",
                "Measurements that failed: 2.",
            ] {
                assert!(whole.contains(words), "{words}\n{text}");
            }
            assert_eq!(text.contains("62,154"), small, "files a second\n{text}");
        }
    }

    #[test]
    fn what_may_be_chance_is_said_to_be() {
        let plan = plan(false);
        let mut few = outcome(&plan);
        for level in few.findings.curves.iter_mut().flat_map(|curve| &mut curve.levels) {
            level.rates.truncate(2);
            level.rate = Summary::of(&level.rates).expect("values");
        }
        let whole = text(&few).split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "No gain out beyond 4 streams; 16 streams carry 50 % less in the median, which is not significant.",
            "One stream gets 81.9 MiB/s out (the difference is not significant), 81.9 MiB/s in (the difference is not significant).",
            "Fewer than 4 measurements of each cannot show a difference; --repeat 6 can.",
        ] {
            assert!(whole.contains(words), "{words}\n{whole}");
        }
        let found = serde_json::to_value(document(&few, String::new())).expect("JSON");
        let out = &found["directions"][0];
        assert_eq!((&out["most_streams_lose"], &out["more_than_one_stream"]), (&().into(), &false.into()), "{out}");
    }

    #[test]
    fn nothing_measured_is_no_way() {
        let plan = plan(false);
        let none = Outcome { findings: Findings::default(), interrupted: true, ..outcome(&plan) };
        let text = text(&none);
        assert!(text.contains("(interrupted)") && text.contains("haul there\n") && !text.contains("carries at most"), "{text}");
        let found = serde_json::to_value(document(&none, String::new())).expect("JSON");
        assert!(found["way"].is_null() && found["why_not_direct"].is_null() && found["interrupted"] == true, "{found}");
        let found = serde_json::to_value(document(&outcome(&plan), String::new())).expect("JSON");
        assert_eq!((&found["directions"][0]["most_streams_lose"], &found["directions"][1]["most_streams_lose"]), (&0.5.into(), &().into()));
        assert_eq!((&found["why_not_direct"], &found["directions"][0]["best_streams"]), (&"as --no-direct asks".into(), &4.into()));
    }
}
