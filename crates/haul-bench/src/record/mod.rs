//! A run of a benchmark on disk.
//!
//! ```text
//! DIR/run.json        command, host, time, settings: Header
//! DIR/samples.jsonl   one Sample per line, synced before the next is measured
//! DIR/samples.csv     the same as a table, made when the run ends
//! DIR/report.html     made when the run ends, and by `haul bench report`
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use haul_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub mod host;
mod sample;

pub use host::{Host, Place};
pub use sample::{ENOUGH, Latency, Outcome, Sample};

/// Of the format; runs of other versions are not read.
pub const VERSION: u32 = 1;

/// Bytes of a run directory's files that are read at most.
const MOST: u64 = 1 << 30;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub version: u32,
    pub kind: Kind,
    /// Random, so that no two runs are taken for each other.
    pub id: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// When it was over; `None` while it runs and after it was interrupted.
    #[serde(default)]
    pub ended: Option<String>,
    pub command: Vec<String>,
    pub host: Host,
    #[serde(default)]
    pub places: Vec<Place>,
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// A run is resumed only with the same, except for `SHOWN_ONLY`.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// For readers: emulated links, caches that could not be dropped.
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Files,
    Net,
    Compare,
}

impl Kind {
    pub fn words(self) -> &'static str {
        match self {
            Kind::Files => "files",
            Kind::Net => "net",
            Kind::Compare => "compare",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub path: String,
    #[serde(default)]
    pub version: Option<String>,
}

#[derive(Debug)]
pub struct Run {
    pub header: Header,
    pub samples: Vec<Sample>,
    dir: PathBuf,
    file: File,
}

/// Settings that affect the report of a run and not its measurements.
const SHOWN_ONLY: [&str; 2] = ["extrapolate", "extrapolate_bytes"];

fn measured(settings: &BTreeMap<String, Value>) -> BTreeMap<&String, &Value> {
    settings.iter().filter(|(name, value)| !SHOWN_ONLY.contains(&name.as_str()) && !value.is_null()).collect()
}

/// Settings by name, as they are kept.
pub fn settings(of: &impl Serialize) -> BTreeMap<String, Value> {
    serde_json::to_value(of).and_then(serde_json::from_value).unwrap_or_default()
}

fn fail(e: std::io::Error, op: &'static str, path: &Path) -> Error {
    Error::io(e, op).at(path.as_os_str().as_bytes())
}

impl Run {
    /// Begins a run in `dir`, which is created if needed, or resumes the one in it, which must be of the same kind with the same
    /// settings, and not be complete. Errors: `Exists` for a directory with anything else in it.
    pub fn begin(dir: &Path, header: Header) -> Result<Run> {
        fs::create_dir_all(dir).map_err(|e| fail(e, "make directory", dir))?;
        let refuse = |reason: &str, next: &str| {
            Error::new(ErrorKind::Exists, "begin a run").at(dir.as_os_str().as_bytes()).because(reason).hint(next)
        };
        let (header, samples) = match read(dir) {
            Ok((old, _)) if old.kind != header.kind || measured(&old.settings) != measured(&header.settings) => {
                return Err(refuse("the directory has a run with other settings", "name another directory with --out"));
            }
            Ok((old, _)) if old.ended.is_some() => {
                return Err(refuse(
                    "the directory has a complete run",
                    "name another directory with --out, or show the run with `haul bench report`",
                ));
            }
            Ok((mut old, samples)) => {
                old.settings.retain(|name, _| !SHOWN_ONLY.contains(&name.as_str()));
                old.settings.extend(header.settings);
                (Header { host: header.host, ..old }, samples)
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                if fs::read_dir(dir).map_err(|e| fail(e, "list", dir))?.next().is_some() {
                    return Err(refuse("the directory is not empty", "name another directory with --out"));
                }
                (Header { version: VERSION, ..header }, Vec::new())
            }
            Err(e) => return Err(e),
        };
        let path = dir.join("samples.jsonl");
        // A line that was cut off by a kill is written anew.
        write_whole(&path, &lines(&samples))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(|e| fail(e, "open", &path))?;
        let run = Run { header, samples, dir: dir.to_path_buf(), file };
        run.write_header()?;
        Ok(run)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether this repetition of this contender has been measured, by an earlier process that was stopped.
    pub fn has(&self, contender: &str, repetition: u32) -> bool {
        let same = |s: &Sample| s.contender == contender && s.repetition == repetition;
        self.samples.iter().any(|s| same(s) && s.outcome != Outcome::Interrupted)
    }

    /// Keeps a sample; it is on stable storage when this returns. Its number is given here.
    pub fn add(&mut self, mut sample: Sample) -> Result<()> {
        sample.number = u32::try_from(self.samples.len()).unwrap_or(u32::MAX);
        let path = self.dir.join("samples.jsonl");
        let line = lines(std::slice::from_ref(&sample));
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(|e| fail(e, "write", &path))?;
        self.samples.push(sample);
        Ok(())
    }

    /// Writes the table; with `ended` (RFC 3339) the run is complete, without it the run can be resumed.
    pub fn finish(&mut self, ended: Option<String>) -> Result<()> {
        self.header.ended = ended;
        write_whole(&self.dir.join("samples.csv"), table(&self.samples).as_bytes())?;
        self.write_header()
    }

    fn write_header(&self) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(&self.header).map_err(|e| Error::new(ErrorKind::Other, "write").because(e.to_string()))?;
        text.push(b'\n');
        write_whole(&self.dir.join("run.json"), &text)
    }
}

/// Reads a run directory. Errors: `NotFound` where there is no run; `Corrupt` where it cannot be understood. The last
/// line of the samples may be cut off: it is left out.
pub fn read(dir: &Path) -> Result<(Header, Vec<Sample>)> {
    let corrupt = |path: &Path, reason: String| Error::new(ErrorKind::Corrupt, "read").at(path.as_os_str().as_bytes()).because(reason);
    let path = dir.join("run.json");
    let value: Value = serde_json::from_slice(&slurp(&path)?).map_err(|e| corrupt(&path, e.to_string()))?;
    if value["kind"] == "sweep" {
        let e = corrupt(&path, "a run of haul bench sweep, which this haul cannot show".into());
        return Err(e.hint("`haul bench compare -j N,N,...` compares numbers of workers"));
    }
    let header: Header = serde_json::from_value(value).map_err(|e| corrupt(&path, e.to_string()))?;
    if header.version != VERSION {
        return Err(corrupt(&path, format!("a run of version {}; this haul reads version {VERSION}", header.version)));
    }
    let path = dir.join("samples.jsonl");
    let text = slurp(&path)?;
    let mut samples = Vec::new();
    for (at, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match serde_json::from_slice(line) {
            Ok(sample) => samples.push(sample),
            Err(_) if !line.ends_with(b"\n") => {}
            Err(e) => return Err(corrupt(&path, format!("line {}: {e}", at + 1))),
        }
    }
    Ok((header, samples))
}

fn slurp(path: &Path) -> Result<Vec<u8>> {
    // Opening a pipe would block.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|e| fail(e, "open", path))?;
    let found = file.metadata().map_err(|e| fail(e, "look up", path))?;
    let refuse = |why: &str| Err(Error::new(ErrorKind::Corrupt, "read").at(path.as_os_str().as_bytes()).because(why));
    if !found.is_file() {
        return refuse("not a regular file");
    }
    let mut text = Vec::new();
    file.take(MOST + 1).read_to_end(&mut text).map_err(|e| fail(e, "read", path))?;
    if text.len() as u64 > MOST { refuse("larger than any run is") } else { Ok(text) }
}

fn lines(samples: &[Sample]) -> Vec<u8> {
    let mut text = Vec::new();
    for sample in samples {
        text.extend(serde_json::to_vec(sample).unwrap_or_default());
        text.push(b'\n');
    }
    text
}

/// Old or whole new, never a part.
pub fn write_whole(path: &Path, text: &[u8]) -> Result<()> {
    let beside = path.with_extension("partial");
    let written = File::create(&beside).and_then(|mut file| file.write_all(text).and_then(|()| file.sync_all()));
    written.map_err(|e| fail(e, "write", &beside))?;
    fs::rename(&beside, path).map_err(|e| fail(e, "rename", path))
}

/// The columns of the table, and where in the JSON of a sample they are; a column for each factor follows.
const COLUMNS: [(&str, &str); 20] = [
    ("number", "/number"),
    ("contender", "/contender"),
    ("repetition", "/repetition"),
    ("at", "/at"),
    ("outcome", "/outcome"),
    ("seconds", "/seconds"),
    ("files", "/files"),
    ("bytes", "/bytes"),
    ("operations", "/operations"),
    ("user_seconds", "/user"),
    ("system_seconds", "/system"),
    ("peak_bytes", "/peak"),
    ("p50_seconds", "/latency/p50"),
    ("p90_seconds", "/latency/p90"),
    ("p99_seconds", "/latency/p99"),
    ("p999_seconds", "/latency/p999"),
    ("max_seconds", "/latency/max"),
    ("caches", "/caches"),
    ("reason", "/reason"),
    ("command", "/command"),
];

/// One line per sample, for R, pandas and spreadsheets (RFC 4180).
pub fn table(samples: &[Sample]) -> String {
    let factors: BTreeSet<&String> = samples.iter().flat_map(|sample| sample.factors.keys()).collect();
    let names = COLUMNS.iter().map(|(name, _)| name.to_string()).chain(factors.iter().map(ToString::to_string));
    let mut out = line(names);
    for sample in samples {
        let json = serde_json::to_value(sample).unwrap_or_default();
        let fixed = COLUMNS.iter().map(|(_, pointer)| cell(json.pointer(pointer)));
        out += &line(fixed.chain(factors.iter().map(|factor| cell(sample.factors.get(*factor)))));
    }
    out
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(words)) => words.iter().map(|word| cell(Some(word))).collect::<Vec<_>>().join(" "),
        Some(value) => value.to_string(),
    }
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = |cell: String| if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell };
    cells.map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { kind: Kind::Compare, id: "1".into(), settings: [("repeat".to_string(), 3.into())].into(), ..Header::default() }
    }

    fn sample(contender: &str, repetition: u32) -> Sample {
        Sample { contender: contender.into(), repetition, seconds: Some(1.5), bytes: Some(3000), ..Sample::default() }
    }

    #[test]
    fn an_interrupted_run_resumes() {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::begin(dir.path(), header()).unwrap();
        run.add(sample("cp", 1)).unwrap();
        run.add(Sample { outcome: Outcome::Interrupted, ..sample("cp", 2) }).unwrap();
        drop(run);
        let path = dir.path().join("samples.jsonl");
        let mut text = fs::read(&path).unwrap();
        text.extend(b"{\"number\":2,\"cont");
        fs::write(&path, text).unwrap();
        let mut run = Run::begin(dir.path(), header()).unwrap();
        assert_eq!((run.has("cp", 1), run.has("cp", 2), run.has("rsync", 1)), (true, false, false));
        run.add(sample("cp", 2)).unwrap();
        run.finish(Some("2026-01-02T03:04:05Z".into())).unwrap();
        let (read_header, samples) = read(dir.path()).unwrap();
        assert_eq!(samples.iter().map(|s| s.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(samples, run.samples);
        assert_eq!(read_header, run.header);
        assert_eq!(samples[0].rate(), Some(2000.0));
        assert_eq!(samples[1].rate(), None);
    }

    #[test]
    fn what_is_something_else_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        assert_eq!(Run::begin(dir.path(), header()).unwrap_err().kind(), ErrorKind::Exists);
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::begin(dir.path(), header()).unwrap();
        // Settings of the report may differ.
        let mut shown = header();
        shown.settings.insert("extrapolate".into(), "13TB".into());
        assert_eq!(Run::begin(dir.path(), shown.clone()).unwrap().header.settings, shown.settings);
        assert_eq!(Run::begin(dir.path(), header()).unwrap().header.settings, header().settings);
        let other = Header { settings: BTreeMap::new(), ..header() };
        assert_eq!(Run::begin(dir.path(), other).unwrap_err().kind(), ErrorKind::Exists);
        run.finish(Some("2026-01-02T03:04:05Z".into())).unwrap();
        assert_eq!(Run::begin(dir.path(), header()).unwrap_err().kind(), ErrorKind::Exists);
        fs::write(dir.path().join("run.json"), "{}").unwrap();
        assert_eq!(read(dir.path()).unwrap_err().kind(), ErrorKind::Corrupt);
        fs::write(dir.path().join("run.json"), "{\"kind\": \"sweep\"}").unwrap();
        assert!(read(dir.path()).unwrap_err().to_string().contains("a run of haul bench sweep"));
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        for name in ["run.json", "samples.jsonl"] {
            let dir = tempfile::tempdir().unwrap();
            drop(Run::begin(dir.path(), header()).unwrap());
            let path = dir.path().join(name);
            fs::remove_file(&path).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
            let refused = read(dir.path()).unwrap_err();
            assert!(refused.to_string().contains("not a regular file"), "{refused}");
        }
    }

    #[test]
    fn the_table_has_a_column_for_all_that_was_varied() {
        let mut one = sample("a,\"b\"", 1);
        one.factors.insert("streams".into(), 4.into());
        one.factors.insert("direction".into(), "put".into());
        let text = table(&[one, sample("c", 2)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",command,direction,streams"));
        assert!(lines[1].starts_with("0,\"a,\"\"b\"\"\",1,,ok,1.5,,3000,") && lines[1].ends_with(",put,4"), "{}", lines[1]);
        assert!(lines[2].ends_with(",,"));
    }
}
