//! `haul ls` in object stores: keys, versions, uploads and buckets, by plain listings only and as they come.

use haul_run::open::Argument;
use haul_run::scope::Scope;
use haul_s3::admin::leaf;
use std::io::{self, Write};

use haul_core::entry::{Time, show};
use haul_core::error::{Error, Result};
use haul_core::store::Flow;
use haul_s3::inventory::{Line, Object, Upload, Version};

use super::files::{Ls, stamp};
use super::object_usage::{admits, admits_dir};
use crate::render::listing::{self, Listed};
use crate::units;

/// The buckets of the account.
pub fn buckets(asked: &Argument<'_>, json: bool, out: &mut dyn Write) -> Result<()> {
    let profile = asked.location.user.as_ref().map(|name| format!("{name}@")).unwrap_or_default();
    let client = haul_s3::host::client(asked.hosts.access(), asked.location)?;
    let listed = client.buckets().map_err(|e| e.at(format!("s3://{profile} ({})", client.endpoint_words()).as_bytes()));
    for bucket in listed? {
        let address = format!("s3://{profile}{}", bucket.name);
        let written = match json {
            true => Listed::Bucket(listing::Bucket::of(&bucket, &address)).write(out),
            false => writeln!(out, "{}  {}", when(bucket.created), show(address.as_bytes())),
        };
        written.map_err(|e| Error::io(e, "write"))?;
    }
    Ok(())
}

fn when(time: Option<Time>) -> String {
    time.map_or_else(|| format!("{:<19}", "-"), stamp)
}

/// Lines go to a writer until it fails.
struct Printer<'a> {
    /// The argument.
    place: &'a [u8],
    scope: &'a Scope,
    out: &'a mut dyn Write,
    how: Ls<'a>,
    failed: Option<io::Error>,
}

impl<'a> Printer<'a> {
    fn new(asked: &'a Argument<'_>, scope: &'a Scope, how: Ls<'a>, out: &'a mut dyn Write) -> Self {
        Printer { place: &asked.path, scope, out, how, failed: None }
    }

    fn print(&mut self, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Flow {
        match text(self.out) {
            Ok(()) => Flow::Go,
            Err(e) => {
                self.failed = Some(e);
                Flow::Stop
            }
        }
    }

    fn size(&self, bytes: u64) -> String {
        if self.how.human { units::bytes(bytes) } else { bytes.to_string() }
    }

    /// A key or a directory, by the name that is shown.
    fn line(&mut self, line: &Line, name: &[u8]) -> Flow {
        let (how, place) = (self.how, self.place);
        let within = self.scope.below(line.key());
        let admitted = match line {
            Line::Object(object) => admits(how.chosen, if within.is_empty() { leaf(&object.key) } else { within }, object),
            Line::Prefix(_) => admits_dir(how.chosen, within),
        };
        if !admitted {
            return Flow::Go;
        }
        if how.json {
            let path = self.scope.below(line.key());
            let entry = match line {
                Line::Object(object) => listing::Entry::of_object(place, path, object),
                Line::Prefix(_) => listing::Entry::of_prefix(place, path),
            };
            return self.print(|out| Listed::Entry(Box::new(entry)).write(out));
        }
        let size = match line {
            Line::Object(object) => self.size(object.size),
            Line::Prefix(_) => String::new(),
        };
        self.print(|out| match line {
            Line::Object(object) => columns(out, how, object, &size, show(name)),
            Line::Prefix(_) if how.long || how.etag => writeln!(out, "{}{}", blank(how), show(name)),
            Line::Prefix(_) => writeln!(out, "{}", show(name)),
        })
    }

    fn version(&mut self, version: &Version, name: &[u8]) -> Flow {
        let (how, place) = (self.how, self.place);
        let within = self.scope.below(&version.object.key);
        if !admits(how.chosen, if within.is_empty() { leaf(&version.object.key) } else { within }, &version.object) {
            return Flow::Go;
        }
        if how.json {
            let entry = listing::Entry::of_version(place, self.scope.below(&version.object.key), version);
            return self.print(|out| Listed::Entry(Box::new(entry)).write(out));
        }
        let size = if version.deleted { "-".to_string() } else { self.size(version.object.size) };
        let state = match (version.deleted, version.latest) {
            (true, true) => "deleted",
            (true, false) => "mark",
            (false, true) => "latest",
            (false, false) => "old",
        };
        self.print(|out| {
            columns(out, how, &version.object, &size, format!("{state:<7}  {:<32}  {}", version_text(&version.id), show(name)))
        })
    }

    fn upload(&mut self, upload: &Upload, landed: Option<(u64, u64)>) -> Flow {
        let (place, scope) = (self.place, self.scope);
        if self.how.json {
            let listed = listing::Upload::of(place, scope.below(&upload.key), upload, landed);
            return self.print(|out| Listed::Upload(listed).write(out));
        }
        let landed = landed.map(|(parts, bytes)| format!("{:>12} {parts:>6} parts  ", self.size(bytes))).unwrap_or_default();
        let (id, name) = (version_text(&upload.id), show(&scope.shown(&upload.key)));
        self.print(|out| writeln!(out, "{}  {landed}{id}  {name}", when(upload.initiated)))
    }

    /// What came of a listing, if all of it could be written.
    fn end(self, listed: Result<()>) -> Result<()> {
        self.failed.map_or(listed, |e| Err(Error::io(e, "write")))
    }
}

fn version_text(id: &str) -> String {
    show(id.as_bytes())
}

fn columns(out: &mut dyn Write, how: Ls<'_>, object: &Object, size: &str, name: String) -> io::Result<()> {
    if how.long {
        let class = if object.class.is_empty() { "-" } else { &*object.class };
        write!(out, "{:<12} {size:>12} {} ", show(class.as_bytes()), when(object.modified))?;
    }
    if how.etag {
        write!(out, "{:<36} ", show(object.etag.trim_matches('"').as_bytes()))?;
    }
    writeln!(out, "{name}")
}

/// The columns of a directory, which has nothing to put into them.
fn blank(how: Ls<'_>) -> String {
    let width = if how.long { 12 + 1 + 12 + 1 + 19 + 1 } else { 0 } + if how.etag { 37 } else { 0 };
    " ".repeat(width)
}

pub fn ls(asked: &Argument<'_>, scope: &Scope, how: Ls<'_>, out: &mut dyn Write) -> Result<()> {
    let mut printer = Printer::new(asked, scope, how, out);
    let listed = scope.list(how.recursive, &mut |line, name| printer.line(line, name));
    printer.end(listed)
}

pub fn versions(asked: &Argument<'_>, scope: &Scope, how: Ls<'_>, out: &mut dyn Write) -> Result<()> {
    let mut printer = Printer::new(asked, scope, how, out);
    let listed = scope.list_versions(how.recursive, &mut |version| printer.version(version, &scope.shown(&version.object.key)));
    printer.end(listed)
}

/// Lists unfinished uploads: when they were begun, their ids, and with `-l` what has landed, one request each.
pub fn uploads(asked: &Argument<'_>, scope: &Scope, how: Ls<'_>, out: &mut dyn Write) -> Result<()> {
    let mut printer = Printer::new(asked, scope, how, out);
    let listed = scope.list_uploads(how.long, &mut |upload, landed| printer.upload(upload, landed));
    printer.end(listed)
}
