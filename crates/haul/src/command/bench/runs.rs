//! What all measurements share: where runs are kept, their header, and how results are printed.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_bench::record::{Header, Host, Kind, Outcome, Run};
use haul_bench::report;
use haul_core::entry::show as safe;
use haul_core::error::{Error, Result};
use haul_core::place::url::without_password;
use serde_json::{Value, json};

use crate::flags::Global;
use crate::out;
use crate::render::{JSON_VERSION, harmless};
use crate::text::utf8_locale;

/// Columns where there is no terminal: what fits into mails and job logs.
const COLUMNS: usize = 80;

/// The run directory of `--out`, else a new one below the state directory.
pub fn directory(asked: Option<&Path>, global: &Global, kind: Kind) -> PathBuf {
    let dir = asked.map_or_else(|| new_directory(global, kind), Path::to_path_buf);
    std::path::absolute(&dir).unwrap_or(dir)
}

fn new_directory(global: &Global, kind: Kind) -> PathBuf {
    let above = global.state_dir.clone().or_else(|| haul_core::journal::default_root(|name| std::env::var_os(name)));
    let stamp = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let name = format!("{}-{stamp}-{:04x}", kind.words(), random() & 0xffff);
    above.unwrap_or_else(std::env::temp_dir).join("bench").join(name)
}

pub fn random() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// RFC 3339, UTC.
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

pub fn header(kind: Kind) -> Header {
    Header {
        kind,
        id: format!("{:016x}", random()),
        started: now(),
        command: std::env::args_os().map(|word| safe(&without_password(word.as_bytes()))).collect(),
        host: Host::here(env!("CARGO_PKG_VERSION")),
        ..Header::default()
    }
}

/// The terminal's columns on standard output, else those of `COLUMNS`, else 80.
pub fn width() -> usize {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    let variable = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| (20..=1000).contains(columns));
    terminal.or_else(variable).unwrap_or(COLUMNS)
}

/// Prints text for people: on standard output; with `--json` on standard error; with `--json --quiet` not at all.
pub fn text(text: String, global: &Global) -> Result<()> {
    let text = if utf8_locale(|name| std::env::var(name).ok()) { text } else { report::ascii(&text) };
    match (global.json, global.quiet) {
        (true, true) => Ok(()),
        (true, false) => {
            out::complain(&text.into(), false);
            Ok(())
        }
        (false, _) => out::print(text.as_bytes()).map_err(|e| Error::io(e, "write")),
    }
}

/// Prints the results of a run, with `--json` its medians as one document with its directory, and writes the page.
pub fn show(event: &str, run: &Run, global: &Global) -> Result<()> {
    if run.samples.iter().any(|sample| sample.outcome != Outcome::Interrupted) {
        text(report::results(&run.header, &run.samples, width()), global)?;
    }
    let mut fields = report::summary(&run.header, &run.samples);
    fields["run"] = safe(run.dir().as_os_str().as_bytes()).into();
    document(event, fields, global)?;
    page(run.dir(), global);
    Ok(())
}

/// With `--json`, prints `fields` as one document.
pub fn document(event: &str, fields: Value, global: &Global) -> Result<()> {
    if !global.json {
        return Ok(());
    }
    let mut document = json!({ "event": event, "time": now(), "version": JSON_VERSION });
    if let (Some(document), Value::Object(fields)) = (document.as_object_mut(), fields) {
        document.extend(fields);
    }
    out::print((harmless(document.to_string()) + "\n").as_bytes()).map_err(|e| Error::io(e, "write"))
}

/// Writes the page of a run and names it. The samples are kept without it, too.
fn page(dir: &Path, global: &Global) {
    match report::write(dir) {
        Ok(page) if !global.quiet => out::say(&format!("report: {}", safe(page.as_os_str().as_bytes()))),
        Ok(_) => {}
        Err(e) => out::failure(&e),
    }
}
