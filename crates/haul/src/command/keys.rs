//! `haul ls` in object stores: keys, versions, uploads and buckets, by plain listings only and as they come.

use haul_stores::s3;
use std::io::{self, Write};

use haul_core::entry::{Time, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Flow;
use haul_stores::s3::inventory::{Line, Object, Upload, Version};

use super::files::stamp;
use super::scope::{Match, Scope, What, nothing};
use crate::open::Argument;
use crate::render::listing::{self, Listed};
use crate::units;

#[derive(Clone, Copy, Debug)]
pub struct Ls {
    pub long: bool,
    pub human: bool,
    pub recursive: bool,
    pub etag: bool,
    pub json: bool,
}

/// The buckets of the account.
pub fn buckets(asked: &Argument<'_>, json: bool, out: &mut dyn Write) -> Result<()> {
    let profile = asked.location.user.as_ref().map(|name| format!("{name}@")).unwrap_or_default();
    for bucket in s3::host::client(asked.hosts.access(), asked.location)?.buckets()? {
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
    how: Ls,
    lines: u64,
    failed: Option<io::Error>,
}

impl<'a> Printer<'a> {
    fn new(asked: &'a Argument<'_>, scope: &'a Scope, how: Ls, out: &'a mut dyn Write) -> Self {
        Printer { place: &asked.path, scope, out, how, lines: 0, failed: None }
    }

    fn print(&mut self, text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Flow {
        self.lines += 1;
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
        if how.json {
            let path = below_place(self.scope, line.key());
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
        if how.json {
            let entry = listing::Entry::of_version(place, below_place(self.scope, &version.object.key), version);
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
            let listed = listing::Upload::of(place, below_place(scope, &upload.key), upload, landed);
            return self.print(|out| Listed::Upload(listed).write(out));
        }
        let landed = landed.map(|(parts, bytes)| format!("{:>12} {parts:>6} parts  ", self.size(bytes))).unwrap_or_default();
        let (id, name) = (version_text(&upload.id), show(&shown(scope, &upload.key)));
        self.print(|out| writeln!(out, "{}  {landed}{id}  {name}", when(upload.initiated)))
    }

    fn end(self) -> Result<u64> {
        match self.failed {
            Some(e) => Err(Error::io(e, "write")),
            None => Ok(self.lines),
        }
    }
}

fn version_text(id: &str) -> String {
    show(id.as_bytes())
}

fn columns(out: &mut dyn Write, how: Ls, object: &Object, size: &str, name: String) -> io::Result<()> {
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
fn blank(how: Ls) -> String {
    let width = if how.long { 12 + 1 + 12 + 1 + 19 + 1 } else { 0 } + if how.etag { 37 } else { 0 };
    " ".repeat(width)
}

/// Lists what is below a prefix, or one object, or what a pattern matches. Without a slash it is the object, and where there is
/// none what is below it.
pub fn ls(asked: &Argument<'_>, scope: &Scope, how: Ls, out: &mut dyn Write) -> Result<()> {
    let mut printer = Printer::new(asked, scope, how, out);
    let bucket = scope.bucket();
    let below = |prefix: &[u8], printer: &mut Printer<'_>| {
        let mut any = false;
        bucket.lines(prefix, !how.recursive, &mut |lines| {
            for line in &lines {
                any = true;
                // The directory's own marker.
                if line.key().len() > prefix.len() && printer.line(line, &line.key()[prefix.len()..]) == Flow::Stop {
                    return Flow::Stop;
                }
            }
            Flow::Go
        })?;
        Ok::<bool, Error>(any || prefix.is_empty())
    };
    let found = match &scope.what {
        What::Key(key) => match bucket.first(key)? {
            Some(object) if object.key == *key => {
                printer.line(&Line::Object(object), &asked.path);
                true
            }
            None => false,
            Some(_) => below(&[&key[..], b"/"].concat(), &mut printer)?,
        },
        What::Below(prefix) => below(prefix, &mut printer)?,
        What::Like(wild) => {
            let mut dir = Vec::new();
            wild.walk(bucket, how.recursive, &mut |found| {
                let (Match::Line(line) | Match::Within(line)) = found;
                // A directory's own marker comes right behind it.
                if line.key() == dir {
                    return Flow::Go;
                }
                let flow = printer.line(&line, &scope.address(line.key()));
                if let Line::Prefix(prefix) = line {
                    dir = prefix;
                }
                flow
            })?;
            printer.lines > 0
        }
    };
    match (printer.end()?, found) {
        (_, true) => Ok(()),
        (_, false) => Err(nothing(asked, matches!(scope.what, What::Like(_)))),
    }
}

/// Path of a key below what was named, of what a pattern matches below the bucket.
pub fn below_place<'k>(scope: &Scope, key: &'k [u8]) -> &'k [u8] {
    match &scope.what {
        What::Below(prefix) => key.strip_prefix(&prefix[..]).unwrap_or(key),
        What::Key(own) => key.strip_prefix(&own[..]).map_or(key, |rest| rest.strip_prefix(b"/").unwrap_or(rest)),
        What::Like(_) => key,
    }
}

/// Name of a key in a list: relative to the directory that was named.
fn relative<'k>(scope: &Scope, key: &'k [u8]) -> Option<&'k [u8]> {
    match &scope.what {
        What::Below(prefix) => Some(&key[prefix.len()..]).filter(|rest| !rest.is_empty()),
        What::Key(_) | What::Like(_) => None,
    }
}

fn shown(scope: &Scope, key: &[u8]) -> Vec<u8> {
    relative(scope, key).map_or_else(|| scope.address(key), <[u8]>::to_vec)
}

/// Lists versions and marks of deletion. A listing of versions goes through all that is below, so that without `-R` what is
/// behind a slash is left out.
pub fn versions(asked: &Argument<'_>, scope: &Scope, how: Ls, out: &mut dyn Write) -> Result<()> {
    let mut printer = Printer::new(asked, scope, how, out);
    let own = |key: &[u8]| match &scope.what {
        What::Below(prefix) => how.recursive || !key[prefix.len()..].contains(&b'/'),
        What::Key(own) => how.recursive || key == own,
        What::Like(_) => true,
    };
    let mut any = false;
    scope.bucket().versions(scope.prefix(), &mut |versions| {
        for version in &versions {
            let key = &version.object.key[..];
            if !scope.admits(key, how.recursive) {
                continue;
            }
            any = true;
            if own(key) && printer.version(version, &shown(scope, key)) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Go
    })?;
    printer.end()?;
    let whole = matches!(&scope.what, What::Below(prefix) if prefix.is_empty());
    if any || whole { Ok(()) } else { Err(nothing(asked, matches!(scope.what, What::Like(_)))) }
}

/// Lists unfinished uploads: when they were begun, their ids, and with `-l` what has landed, one request each.
pub fn uploads(asked: &Argument<'_>, scope: &Scope, how: Ls, out: &mut dyn Write) -> Result<()> {
    let mut printer = Printer::new(asked, scope, how, out);
    let mut failed = None;
    let bucket = scope.bucket();
    bucket.uploads(scope.prefix(), &mut |uploads: Vec<Upload>| {
        for upload in uploads.iter().filter(|upload| scope.admits(&upload.key, true)) {
            let landed = match how.long.then(|| bucket.landed_parts(&upload.key, &upload.id)).transpose() {
                Ok(landed) => landed,
                // Completed or abandoned since.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => {
                    failed = Some(e.at(&scope.address(&upload.key)));
                    return Flow::Stop;
                }
            };
            if printer.upload(upload, landed) == Flow::Stop {
                return Flow::Stop;
            }
        }
        Flow::Go
    })?;
    match failed {
        Some(e) => Err(e),
        None => printer.end().map(|_| ()),
    }
}
