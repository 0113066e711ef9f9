//! What limited a job, as a person reads it. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use haul_core::journal::{JobInfo, JobState};

use super::View;
use crate::figures::{Figures, Part, RemoteFigures};
use crate::text::fold;
use crate::units;

/// Letters of a whole bar.
const BAR: usize = 12;
/// Lines of the course of the run.
const LINES: usize = 10;

pub fn text(job: &JobInfo, short: &str, figures: &Figures, view: &View, width: usize) -> String {
    let mut to = String::new();
    let ended = figures.ended.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    let how = match (&job.state, figures.ending.as_str()) {
        (JobState::Running { .. }, _) => "its previous run, ended",
        (_, "complete") if figures.failed > 0 => "ended with errors",
        (_, "complete") => "finished",
        _ => "stopped",
    };
    put(&mut to, &format!("job {short}, {how} {}{}", view.time(ended), view.ago(ended)), width, 2);
    put(&mut to, &format!("  {} -> {}", figures.source, figures.destination), width, 4);
    to.push('\n');
    put(&mut to, &format!("Bottleneck:  {}", figures.limited_by), width, 13);
    to.push('\n');
    stages(figures, width, &mut to);
    to.push('\n');
    course(figures, width, &mut to);
    to.push_str("\nTry next:\n");
    for (n, next) in figures.next.iter().enumerate() {
        put(&mut to, &format!("  {}. {next}", n + 1), width, 5);
    }
    to
}

fn put(to: &mut String, line: &str, width: usize, indent: usize) {
    for line in fold(line, width, indent) {
        to.push_str(&line);
        to.push('\n');
    }
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!("{}{}", "#".repeat(full), ".".repeat(BAR - full))
}

fn seconds(n: f64) -> String {
    match n {
        n if n < 100.0 => format!("{n:.1} s"),
        n => units::duration(Duration::from_secs_f64(n)),
    }
}

fn stages(figures: &Figures, width: usize, to: &mut String) {
    to.push_str("Where the workers' time went:\n");
    for stage in figures.stages.iter().filter(|stage| stage.share >= 0.005) {
        let name = if stage.stage == "bwlimit" { "--bwlimit" } else { &stage.stage };
        let line =
            format!("  {name:<20}  {}  {:>3.0}%  {:>8}  {}", bar(stage.share), stage.share * 100.0, seconds(stage.seconds), stage.meaning);
        put(to, &line, width, 4);
    }
    let rest = figures.stages.iter().filter(|stage| stage.share < 0.005).count();
    if rest > 0 {
        let _ = writeln!(to, "  {:<20}  {}   <1%", "the rest", bar(0.0));
    }
    let processors = &figures.processors;
    let mut beside = format!("{:.1} of {} cores busy", processors.busy, processors.count);
    if processors.queue > 0.05 * figures.elapsed {
        let _ = write!(beside, ", {} waiting for CPU", seconds(processors.queue));
    }
    put(to, &format!("  CPU: {beside}. Idle workers: {}.", seconds(figures.idle)), width, 4);
    for remote in [&figures.remote_source, &figures.remote_destination].into_iter().flatten() {
        put(to, &format!("  {}", remote_words(remote)), width, 4);
    }
}

/// What the other machine did, in its own words.
fn remote_words(remote: &RemoteFigures) -> String {
    let trip = remote.round_trip.map_or(String::new(), |trip| format!(", round trip {:.1} ms", trip * 1e3));
    format!(
        "{} reports: {} reading, {} writing, {} metadata, {} of CPU time on {}{trip}.",
        remote.host,
        seconds(remote.reading),
        seconds(remote.writing),
        seconds(remote.metadata),
        seconds(remote.processor),
        if remote.processors == 1 { "1 core".to_string() } else { format!("{} cores", remote.processors) }
    )
}

/// How the run went: at most [`LINES`] parts of about the same length.
fn course(figures: &Figures, width: usize, to: &mut String) {
    let elapsed = figures.elapsed.max(1e-9);
    let workers = match (figures.workers.fixed, figures.workers.peak) {
        (true, n) => format!("{n} by -j"),
        (false, peak) => format!("{} at the end, {peak} at peak", figures.workers.end),
    };
    let rate = units::rate(figures.bytes as f64 / elapsed);
    let files = (figures.files + figures.unchanged) as f64 / elapsed;
    let unchanged = if figures.unchanged > 0 { format!(" and {} unchanged", units::count(figures.unchanged)) } else { String::new() };
    let sum = format!(
        "Over the run: {}{unchanged}, {} in {}: {rate}, {files:.0} files/s; workers: {workers}.",
        units::files(figures.files),
        units::bytes(figures.bytes),
        seconds(figures.elapsed)
    );
    put(to, &sum, width, 2);
    if let Some(ranks) = &figures.ranks {
        put(to, &format!("Ranks: {}; each (min / median / max): {}.", ranks.title(), ranks.each()), width, 2);
        if let Some(stragglers) = ranks.stragglers() {
            put(to, &format!("Stragglers: {stragglers}."), width, 2);
        }
    }
    let parts = parts(&figures.pace, elapsed);
    if parts.len() < 2 {
        return;
    }
    let most = parts.iter().map(|part| part.rate).fold(0.0, f64::max);
    let _ = writeln!(to, "  {:>9}  {:>7}  {:>5}  {:>12}", "until", "workers", "busy", "rate");
    for part in parts {
        let share = if most > 0.0 { part.rate / most } else { 0.0 };
        let (until, rate) = (seconds(part.until), units::rate(part.rate));
        let _ = writeln!(to, "  {until:>9}  {:>7.0}  {:>5.1}  {rate:>12}  {}", part.workers, part.busy, bar(share));
    }
}

struct Line {
    until: f64,
    workers: f64,
    busy: f64,
    /// Bytes a second.
    rate: f64,
}

fn parts(pace: &[Part], elapsed: f64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let (mut start, mut bytes) = (0.0, 0);
    let (mut workers, mut busy, mut last) = (0.0, 0.0, 0.0);
    for (at, part) in pace.iter().enumerate() {
        let lasted = part.until - last;
        workers += part.workers * lasted;
        busy += part.busy * lasted;
        last = part.until;
        let due = (lines.len() + 1) as f64 * elapsed / LINES as f64;
        let length = part.until - start;
        if (part.until >= due || at + 1 == pace.len()) && length > 0.0 {
            let rate = part.bytes.saturating_sub(bytes) as f64 / length;
            lines.push(Line { until: part.until, workers: workers / length, busy: busy / length, rate });
            (start, bytes, workers, busy) = (part.until, part.bytes, 0.0, 0.0);
        }
    }
    lines
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    pub fn figures() -> Figures {
        let stage = |stage: &str, meaning: &str, seconds: f64, share: f64| crate::figures::StageTime {
            stage: stage.into(),
            meaning: meaning.into(),
            seconds,
            share,
        };
        let part = |until: f64, busy: f64, bytes: u64| Part { until, workers: 8.0, busy, bytes };
        Figures {
            ended: "2023-11-14T22:13:20Z".into(),
            ending: "complete".into(),
            source: "/home/me/run7".into(),
            destination: "cluster:/scratch/run7".into(),
            limited_by: "the network to cluster: 73% of the workers' time, with 8 workers and 0.3 of 2 processors busy".into(),
            next: vec!["nothing: this is the network's throughput; `haul bench net cluster` measures it directly".into()],
            elapsed: 12.0,
            files: 1_204,
            bytes: 1_200 << 20,
            workers: crate::figures::Workers { peak: 8, end: 8, fixed: false },
            processors: crate::figures::Processors { count: 2, busy: 0.31, queue: 0.1 },
            stages: vec![
                stage("network", "network between hosts", 70.0, 0.729),
                stage("destination writes", "writing data", 20.0, 0.208),
                stage("destination metadata", "creates, lookups, deletes", 6.0, 0.0625),
                stage("planning", "sorting, comparing names", 0.01, 0.0001),
            ],
            idle: 2.5,
            remote_destination: Some(RemoteFigures {
                host: "cluster".into(),
                writing: 20.0,
                processors: 64,
                round_trip: Some(0.0213),
                ..RemoteFigures::default()
            }),
            pace: vec![part(4.0, 8.0, 600 << 20), part(8.0, 8.0, 1_100 << 20), part(12.0, 1.5, 1_200 << 20)],
            ..Figures::default()
        }
    }

    pub fn job() -> JobInfo {
        JobInfo {
            id: "3f2a91bc00000000".into(),
            sources: Vec::new(),
            target: String::new(),
            reached: String::new(),
            command: String::new(),
            directory: None,
            arguments: Vec::new(),
            spec: None,
            started: None,
            heartbeat: None,
            state: JobState::Finished { record: String::new(), at: None },
            figures: None,
        }
    }

    #[test]
    fn a_page_for_a_person() {
        let job = job();
        let view = View { root: "/state".into(), zone: TimeZone::UTC, now: 1_700_000_120 };
        let page = text(&job, "3f2a91bc", &figures(), &view, 80);
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        insta::assert_snapshot!(page, @r"
        job 3f2a91bc, finished 2023-11-14 22:13:20 (2m00s ago)
          /home/me/run7 -> cluster:/scratch/run7

        Bottleneck:  the network to cluster: 73% of the workers' time, with 8 workers
                     and 0.3 of 2 processors busy

        Where the workers' time went:
          network               #########...   73%    70.0 s  network between hosts
          destination writes    ##..........   21%    20.0 s  writing data
          destination metadata  #...........    6%     6.0 s  creates, lookups, deletes
          the rest              ............   <1%
          CPU: 0.3 of 2 cores busy. Idle workers: 2.5 s.
          cluster reports: 0.0 s reading, 20.0 s writing, 0.0 s metadata, 0.0 s of CPU
            time on 64 cores, round trip 21.3 ms.

        Over the run: 1,204 files, 1.17 GiB in 12.0 s: 100 MiB/s, 100 files/s; workers:
          8 at the end, 8 at peak.
              until  workers   busy          rate
              4.0 s        8    8.0     150 MiB/s  ############
              8.0 s        8    8.0     125 MiB/s  ##########..
             12.0 s        8    1.5    25.0 MiB/s  ##..........

        Try next:
          1. nothing: this is the network's throughput; `haul bench net cluster`
             measures it directly
        ");
    }

    #[test]
    fn several_ranks_are_compared() {
        let ranks = Some(crate::spread::SpreadFigures::from(&crate::spread::tests::spread()));
        let mut page = String::new();
        course(&Figures { ranks, pace: Vec::new(), ..figures() }, 80, &mut page);
        insta::assert_snapshot!(page, @r"
        Over the run: 1,204 files, 1.17 GiB in 12.0 s: 100 MiB/s, 100 files/s; workers:
          8 at the end, 8 at peak.
        Ranks: 16 on 4 nodes; each (min / median / max): 2,201 / 2,360 / 2,410 files,
          120 MiB / 130 MiB / 150 MiB, busy for 11.0 / 12.0 / 13.0 s.
        Stragglers: rank 7 on n03 (3.1 times as long as the median for the same work),
          rank 2 on n01 (2.2).
        ");
    }

    #[test]
    fn a_run_of_one_moment_has_no_course() {
        let short = Figures { pace: vec![Part::default()], ..figures() };
        let mut page = String::new();
        course(&short, 80, &mut page);
        assert_eq!(page.lines().count(), 2, "{page}");
        assert_eq!(parts(&[], 1.0).len(), 0);
    }
}
