//! What was found, as a person reads it and as JSON.

use std::path::Path;
use std::time::Duration;

use haul_bench::net::{Beyond, Curve, Findings, Level, Limit, Plan, Point, Window};
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
    let files = if plan.small { "files of 6.5 kB" } else { "large files" };
    let ways = match plan.directions[..] {
        [one] => one.word().to_string(),
        _ => "out and in".into(),
    };
    let goes_on = if left < all { format!(" ({} of {all} are measured already)", all - left) } else { String::new() };
    format!(
        "measures the way to {host}: {left} measurements of {} each, made-up {files} {ways}, rounds ordered by seed {}{goes_on}; about {}; samples go to {}",
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
    block.whole(&format!("{}: what the way carries, without any disk{ending}", outcome.host));
    block.add("way", &way_words(outcome));
    if let Some(asked) = &outcome.findings.round_trip {
        let least = outcome.findings.round_trip_least.map_or(String::new(), |least| format!("{} to ", time(least)));
        block.add("round trip", &format!("{} ({least}{}, {} questions)", time(asked.p50), time(asked.max), asked.count));
    }
    let curves = &outcome.findings.curves;
    if !curves.is_empty() {
        block.0.push('\n');
        // With files a second one direction fills the line.
        for part in curves.chunks(if outcome.plan.small { 1 } else { 2 }) {
            block.0.push_str(&table(part, outcome.plan.small));
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

/// One row for each number of streams, three columns for each direction.
fn table(curves: &[Curve], small: bool) -> String {
    let mut streams: Vec<u32> = curves.iter().flat_map(|curve| curve.levels.iter().map(|level| level.streams)).collect();
    streams.sort_unstable();
    streams.dedup();
    let mut out = "streams".to_string();
    for curve in curves {
        let files = if small { format!(" {:>9}", "files/s") } else { String::new() };
        out.push_str(&format!("  {:>10}{files} {:>11} {:>11}", curve.direction.word(), "from", "to"));
    }
    out.push('\n');
    for streams in streams {
        out.push_str(&format!("{streams:>7}"));
        for curve in curves {
            let Some(level) = curve.levels.iter().find(|level| level.streams == streams) else {
                let files = if small { format!(" {:>9}", "") } else { String::new() };
                out.push_str(&format!("  {:>10}{files} {:>11} {:>11}", "-", "", ""));
                continue;
            };
            let files = if small { format!(" {:>9}", units::count(level.files.round() as u64)) } else { String::new() };
            let (from, to) = level.rate.interval;
            out.push_str(&format!("  {:>10}{files} {:>11} {:>11}", rate(level.rate.median), rate(from), rate(to)));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
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

fn sentences(outcome: &Outcome<'_>) -> Vec<String> {
    let curves = &outcome.findings.curves;
    let of = |words: &dyn Fn(&Curve, &str) -> Option<String>| -> Vec<String> {
        curves.iter().filter_map(|curve| words(curve, curve.direction.word())).collect()
    };
    let mut said = Vec::new();
    let most = of(&|curve, way| curve.best().map(|best| format!("{} {way} with {}", rate(best.rate.median), streams_words(best.streams))));
    said.push(format!("The way carries at most {}.", both(&most)));
    let one = of(&|curve, way| {
        let one = curve.one_stream()?;
        (curve.levels.len() > 1).then(|| format!("{} {way}", rate(one.rate.median)))
    });
    if !one.is_empty() {
        said.push(format!("One stream gets {}.", both(&one)));
    }
    said.extend(curves.iter().filter_map(beyond));
    let limits = of(&|curve, way| curve.best().map(|best| format!("{way} by {}", limit_words(best.limit))));
    said.push(format!("At its best it was limited {}.", both(&limits)));
    let costs = of(&|curve, way| {
        let best = curve.best()?;
        let side = |cpu: Option<f64>, side: &str| cpu.map(|cpu| format!("{cpu:.2} s {side}"));
        let sides: Vec<String> = [side(best.cpu_here, "here"), side(best.cpu_there, "there")].into_iter().flatten().collect();
        (!sides.is_empty()).then(|| format!("{way} {}", sides.join(" and ")))
    });
    if !costs.is_empty() {
        said.push(format!("A GB (10^9 bytes) costs this much processor time, that of ssh included: {}.", both(&costs)));
    }
    said.extend(shared(outcome));
    said.push(
        "A copy that is slower than this is held back by the storage of one of its ends: `haul bench files` measures a storage, `haul \
         bench compare SRC DST` all of it together."
            .into(),
    );
    said
}

fn beyond(curve: &Curve) -> Option<String> {
    let (best, last, way) = (curve.best()?, curve.levels.last()?, curve.direction.word());
    Some(match curve.beyond()? {
        Beyond::Unknown => format!("More than {} were not tried {way}, and may carry more.", streams_words(last.streams)),
        Beyond::Nothing => format!("More than {} brings nothing {way}.", streams_words(best.streams)),
        Beyond::Loses(share) => {
            let lost = format!("{} lose {:.0} %", streams_words(last.streams), share * 100.0);
            format!("More than {} brings nothing {way}; {lost}.", streams_words(best.streams))
        }
    })
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
        Limit::Way => "the way itself (processors were left over)",
        Limit::ProcessorsHere => "the processors here, all of which were busy (the way may carry more)",
        Limit::ProcessorsThere => "the processors there, all of which were busy (the way may carry more)",
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
    /// Share of the best rate that the most streams lose, 0 to 1; `null` where more may carry more.
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
    files_rate: f64,
    cpu_here_per_gb: Option<f64>,
    cpu_there_per_gb: Option<f64>,
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
        files_rate: level.files,
        cpu_here_per_gb: level.cpu_here,
        cpu_there_per_gb: level.cpu_there,
        limited_by: level.limit.word(),
    };
    Some(DirectionFound {
        direction: curve.direction.word(),
        best_streams: best.streams,
        best_rate: whole(best.rate.median),
        one_stream_rate: curve.one_stream().map(|one| whole(one.rate.median)),
        most_streams_lose: match curve.beyond() {
            Some(Beyond::Loses(share)) => Some(share),
            Some(Beyond::Nothing) => Some(0.0),
            Some(Beyond::Unknown) | None => None,
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

    fn curve(direction: Direction, medians: &[(u32, f64)]) -> Curve {
        let level = |(streams, median): &(u32, f64)| Level {
            streams: *streams,
            links: u64::from(*streams).min(8),
            way: "ssh".into(),
            rate: Summary::of(&[*median * 0.9, *median, *median * 1.1]).expect("values"),
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
        Plan { streams: vec![1, 4, 16], directions, seconds: Duration::from_secs(5), repeat: 3, small, seed: 1 }
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
                "The way carries at most 385 MiB/s out with 4 streams, 385 MiB/s in with 4 streams.",
                "One stream gets 96.3 MiB/s out, 96.3 MiB/s in.",
                "More than 4 streams brings nothing out; 16 streams lose 50 %.",
                "More than 4 streams were not tried in, and may carry more.",
                "limited out by ssh here, which used up one processor",
                "out 1.25 s here, in 1.25 s here",
                "no more than 8 ssh sessions in one connection: 16 streams and more share them",
                "3 measurements each; each lies between its bounds with a probability of 75 %",
                "Measurements that failed: 2.",
            ] {
                assert!(whole.contains(words), "{words}\n{text}");
            }
            assert_eq!(text.contains("62,154"), small, "files a second\n{text}");
        }
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
