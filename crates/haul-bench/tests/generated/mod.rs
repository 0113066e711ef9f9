//! Runs that nobody measured: as real ones look, with all that goes wrong. The same at every call.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeMap;

use haul_bench::record::{Header, Kind, Latency, Outcome, Place, Sample};
use serde_json::{Value, json};

pub type Made = (Header, Vec<Sample>);

/// Ends tags and attributes wherever it is not escaped, and steers terminals.
pub const HOSTILE: &str = "<script>alert(\"1\")</script> & 'rsync' </title></svg>\u{1b}[31m\u{202e}\u{0}]]>";

/// Numbers between 0 and 1, always the same.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Near 1, more often above than below.
    pub fn jitter(&mut self, much: f64) -> f64 {
        1.0 + much * (self.next() + self.next() * self.next() - 0.6)
    }
}

pub fn header(kind: Kind) -> Header {
    let options = "rw,relatime,attr2,inode64,logbufs=8,logbsize=32k,noquota";
    let place = |role: &str, address: &str| {
        json!({"role": role, "address": address, "file_system": "xfs", "device": "/dev/mapper/vg0-scratch", "mounted_on": "/scratch",
               "options": options, "free": 3_400_000_000_000_u64})
    };
    let header = json!({
        "version": haul_bench::record::VERSION, "kind": kind, "id": format!("7f3a{:04x}", kind as u32 + 11),
        "started": "2026-03-02T08:15:00Z", "ended": "2026-03-02T09:47:31Z",
        "command": ["haul", "bench", kind.words(), "--repeat", "7", "/scratch/me/set with spaces"],
        "host": {"name": "login2", "kernel": "Linux 6.1.0-28-amd64", "system": "Debian GNU/Linux 12 (bookworm)", "processors": 48,
                 "processor": "AMD EPYC 7713 64-Core Processor", "memory": 549_755_813_888_u64, "load": 0.42, "haul": "0.1.0",
                 "interfaces": [{"name": "ens1f0", "speed": 25_000, "mtu": 9000}]},
        "places": match kind {
            Kind::Files => vec![place("data", "/scratch/me/bench")],
            Kind::Net => vec![json!({"role": "destination", "address": "cluster.example.org"})],
            Kind::Compare => vec![place("source", "/scratch/me/set"), place("destination", "cluster:/project/me/copy")],
        },
        "tools": [{"name": "haul", "path": "/usr/local/bin/haul", "version": "haul 0.1.0"},
                  {"name": "rsync", "path": "/usr/bin/rsync", "version": "rsync  version 3.2.7  protocol version 31"}],
        "settings": {"repeat": 7, "extrapolate": "13TB", "extrapolate_bytes": 13e12},
        "notes": ["The link was emulated: 30 ms of delay both ways, no loss.", "Caches could not be dropped: that needs root."],
    });
    serde_json::from_value(header).expect("a header")
}

pub fn factors(object: Value) -> BTreeMap<String, Value> {
    serde_json::from_value(object).expect("an object")
}

pub fn sample(contender: &str, factors: BTreeMap<String, Value>, repetition: u32, seconds: f64, files: u64, bytes: u64) -> Sample {
    Sample {
        contender: contender.into(),
        factors,
        repetition,
        seconds: Some(seconds),
        files: Some(files),
        bytes: Some(bytes),
        user: Some(seconds * 0.3),
        system: Some(seconds * 0.5),
        peak: Some(48 << 20),
        caches: Some("not dropped: needs root".into()),
        command: vec![contender.into(), "-a".into(), "src with spaces/".into(), "dst/".into()],
        at: "2026-03-02T08:15:00Z".into(),
        ..Sample::default()
    }
}

fn failed(sample: Sample, outcome: Outcome, reason: &str) -> Sample {
    Sample { outcome, reason: Some(reason.into()), seconds: Some(2.5), files: None, bytes: None, ..sample }
}

fn numbered(mut samples: Vec<Sample>) -> Vec<Sample> {
    for (at, sample) in samples.iter_mut().enumerate() {
        sample.number = at as u32;
    }
    samples
}

/// Of so many operations.
pub fn latency(middle: f64, count: u64) -> Latency {
    let [p50, p90, p99, p999, max] = [1.0, 1.9, 3.2, 8.0, 11.0].map(|by| middle * by);
    Latency { count, p50, p90, p99, p999, max, classes: vec![(p50, count / 2), (max, count / 2)] }
}

/// Seven tools: one copies wrongly, one fails, one is not installed.
pub fn compare() -> Made {
    compare_of(4 << 30)
}

/// The same on so many bytes.
pub fn compare_of(bytes: u64) -> Made {
    let mut dice = Dice::new(1);
    let mut samples = Vec::new();
    let tools = [
        ("haul", 0.08, 900e6),
        ("cp", 0.02, 430e6),
        ("rsync", 0.25, 210e6),
        ("rclone", 0.9, 610e6),
        ("scp", 0.4, 120e6),
        ("tar over ssh", 0.35, 190e6),
    ];
    for repetition in 0..=7 {
        for (tool, fixed, rate) in tools {
            let seconds = (fixed + bytes as f64 / rate) * dice.jitter(0.12);
            let one = sample(tool, BTreeMap::new(), repetition, seconds, 16, bytes);
            samples.push(match (tool, repetition) {
                ("scp", 2) => failed(one, Outcome::Timeout, "not done after 600 s, and killed"),
                ("scp", 1..) => failed(one, Outcome::Failed, "client_loop: send disconnect: Broken pipe"),
                ("tar over ssh", 3) => failed(one, Outcome::Wrong, "file 7: the content differs from byte 1,048,576 on"),
                _ => one,
            });
        }
        if repetition == 1 {
            let gone = sample("s5cmd", BTreeMap::new(), 1, 0.0, 0, 0);
            samples.push(Sample { seconds: None, user: None, ..failed(gone, Outcome::Missing, "no program of this name") });
        }
    }
    (header(Kind::Compare), numbered(samples))
}

/// The same a month later: rsync is slower, cp as it was, scp gone.
pub fn compare_later() -> Made {
    let (mut header, mut samples) = compare();
    let mut dice = Dice::new(2);
    header.id = "91bc0002".into();
    header.started = "2026-04-02T08:15:00Z".into();
    header.host.kernel = "Linux 6.12.1-amd64".into();
    samples.retain(|s| s.contender != "scp");
    for s in &mut samples {
        let by = if s.contender == "rsync" { 1.4 } else { 1.0 };
        s.seconds = s.seconds.map(|seconds| seconds * by * dice.jitter(0.1));
    }
    (header, samples)
}

/// Forty contenders of one work, with names that nobody would choose.
pub fn compare_many() -> Made {
    let mut dice = Dice::new(3);
    let mut samples = Vec::new();
    for at in 0..40u32 {
        let name = match at {
            5 => HOSTILE.to_string(),
            9 => format!("tool with a very long name {} and its end", "that goes on and on ".repeat(8)),
            12 => "名前が長いツール".repeat(3),
            _ => format!("tool {at} -j {}", 1 << (at % 6)),
        };
        for repetition in 1..=3 {
            let seconds = f64::from(at + 4) * 1.3 * dice.jitter(0.2);
            let one = sample(&name, BTreeMap::new(), repetition, seconds, 5000, 5_242_880_000);
            samples.push(if at % 9 == 5 && repetition == 2 { failed(one, Outcome::Wrong, HOSTILE) } else { one });
        }
    }
    (header(Kind::Compare), numbered(samples))
}

/// One contender, measured once.
pub fn compare_one() -> Made {
    (header(Kind::Compare), numbered(vec![sample("haul", BTreeMap::new(), 1, 12.3, 1000, 10_485_760_000)]))
}

/// The workshop's shape: one shared directory is flat, own directories rise.
pub fn files() -> Made {
    let mut dice = Dice::new(4);
    let mut samples = Vec::new();
    for operation in ["create", "read"] {
        for repetition in 1..=6 {
            for (threads, shared, own) in
                [(1u64, 90.0, 86.0), (2, 176.0, 189.0), (4, 175.0, 373.0), (8, 175.0, 746.0), (16, 184.0, 1282.0), (32, 187.0, 1973.0)]
            {
                for (same, rate) in [("Y", shared), ("N", own)] {
                    let rate = rate * dice.jitter(0.1) * if operation == "read" { 4.0 } else { 1.0 };
                    let seconds = 1024.0 / rate;
                    let point = json!({"operation": operation, "threads": threads, "file_size": 4096, "file_count": 1024 / threads, "same_dir": same});
                    let point = factors(point);
                    let mut one = sample(operation, point, repetition, seconds, 1024, 1024 * 4096);
                    one.operations = Some(1024);
                    one.latency = Some(latency(threads as f64 / rate * 0.9, 1024));
                    one.command.clear();
                    samples.push(one);
                }
            }
        }
    }
    (header(Kind::Files), numbered(samples))
}

/// The report of 2006: 6 streams are best, 16 in one direction worse than one.
pub fn net() -> Made {
    let mut dice = Dice::new(5);
    let mut samples = Vec::new();
    let out = [(1u64, 10.0), (2, 22.0), (4, 35.0), (6, 47.0), (8, 37.0), (16, 37.0)];
    let back = [(1u64, 19.0), (2, 22.0), (4, 18.0), (6, 26.0), (8, 13.0), (16, 11.0)];
    for repetition in 0..=10 {
        for (direction, rates) in [("out", out), ("in", back)] {
            for (streams, rate) in rates {
                let bytes = 2_000_000_000u64;
                let seconds = bytes as f64 / (rate * 1e6 * dice.jitter(0.15));
                let point = factors(json!({"direction": direction, "streams": streams}));
                let mut one = sample("haul", point, repetition, seconds, 0, bytes);
                one.files = None;
                if repetition == 4 && streams == 16 {
                    one = failed(one, Outcome::Failed, "connection reset by peer");
                }
                samples.push(one);
            }
        }
    }
    (header(Kind::Net), numbered(samples))
}

/// Zeros, holes, no factors, strings for numbers, numbers out of this world, empty names: of every kind.
pub fn odd(kind: Kind) -> Made {
    let mut samples = Vec::new();
    let names = ["threads", "streams", "direction", "operation", "file_size", "same_dir"];
    let point = |value: Value| names.map(|name| (name.to_string(), value.clone())).into();
    let values = [json!(0), json!(null), json!("8"), json!(HOSTILE), json!(-4), json!(1e300), json!([1, {"a": 2}]), json!(1.5), json!("")];
    for (at, value) in values.into_iter().enumerate() {
        for repetition in 0..3 {
            let base = sample(if at % 2 == 0 { "haul" } else { HOSTILE }, point(value.clone()), repetition, 1.5, 10, 10_000);
            samples.push(match (at + repetition as usize) % 6 {
                0 => Sample { seconds: Some(0.0), ..base },
                1 => Sample { seconds: None, ..base },
                2 => Sample { bytes: Some(0), files: Some(0), operations: Some(0), ..base },
                3 => Sample { bytes: Some(u64::MAX), seconds: Some(1e-300), peak: Some(u64::MAX), ..base },
                4 => Sample {
                    latency: Some(Latency { count: 0, p50: 0.0, classes: vec![(0.0, 3), (1e-9, 0), (1e9, 1)], ..Latency::default() }),
                    series: vec![(0.0, 5), (0.0, 3), (-1.0, 9), (2.0, 1)],
                    ..base
                },
                _ => Sample { outcome: Outcome::Failed, reason: Some(HOSTILE.into()), ..base },
            });
        }
    }
    samples.push(Sample { contender: String::new(), repetition: 1, ..Sample::default() });
    let mut header = header(kind);
    header.ended = None;
    header.host.name = HOSTILE.into();
    header.notes.push(HOSTILE.into());
    header.command.push(HOSTILE.into());
    header.places = vec![Place { role: HOSTILE.into(), address: HOSTILE.into(), options: Some(HOSTILE.into()), ..Place::default() }];
    header.settings.insert(HOSTILE.into(), json!(HOSTILE));
    (header, numbered(samples))
}

/// A run that was begun and no more.
pub fn empty(kind: Kind) -> Made {
    (Header { kind, ..Header::default() }, Vec::new())
}

/// All of them, by name.
pub fn all() -> Vec<(String, Made)> {
    let mut out: Vec<(String, Made)> = vec![
        ("compare".into(), compare()),
        ("compare-many".into(), compare_many()),
        ("compare-one".into(), compare_one()),
        ("files".into(), files()),
        ("net".into(), net()),
    ];
    for kind in [Kind::Files, Kind::Net, Kind::Compare] {
        out.push((format!("odd-{}", kind.words()), odd(kind)));
        out.push((format!("empty-{}", kind.words()), empty(kind)));
    }
    out
}
