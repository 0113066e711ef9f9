//! The commands that are not a run of the engine, one file a group; here the flags meet them.

pub mod agent;
pub mod batch;
pub mod bench;
pub mod complete;
pub mod demo;
mod df;
pub mod doctor;
pub mod du;
pub mod files;
mod head;
pub mod jobs;
mod ln;
mod manifest;
mod object;
mod object_list;
mod object_usage;
mod output;
mod presign;
mod remove_output;
pub mod rm;
mod set;
pub mod slurm;
pub mod sum;
mod tree;
pub mod why;

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use haul_core::cancel::Cancel;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::Algorithm;
use haul_core::job::{Bounds, Mode};
use haul_core::meter::Meter;
use haul_core::pool::Session;
use haul_run::hosts::Hosts;
use haul_run::location::Location;
use haul_run::open::Argument;
use haul_run::{open, plan, scope, wild};
use haul_s3::admin;
use haul_s3::inventory::Object;

use manifest::Format;

use crate::exit::Exit;
use crate::flags::bucket::PresignMethod;
use crate::flags::check::SumFormat;
use crate::flags::connect::Connect;
use crate::flags::{
    CatFlags, CheckFlags, DfFlags, DuFlags, Global, HeadFlags, LnFlags, LsFlags, MbFlags, MkdirFlags, ObjectFlags, PresignFlags, RbFlags,
    RmFlags, SetFlags, SumFlags, TreeFlags,
};
use crate::ranks::shared::{self, Shared};
use crate::ranks::{self, Ranks};
use crate::{out, transfer};
use haul_core::place::OpenOptions;

/// Levels that du shows without `-d`.
const DU_DEPTH: u32 = 1;

/// An argument of a host as the names that it matches; any other as it is.
fn matches(place: &Location, hosts: &Hosts) -> Result<Vec<Location>> {
    match wild::expand(place, hosts, OpenOptions::default())? {
        Some(matches) => Ok(matches.into_iter().map(|found| found.location).collect()),
        None => Ok(vec![place.clone()]),
    }
}

/// Runs over what the arguments name with one buffered standard output.
fn over(places: &[Location], connect: &Connect, each: impl FnMut(&Argument<'_>, &mut dyn Write) -> Result<u64>) -> Exit {
    over_names(places, connect, matches, each)
}

fn over_names(
    places: &[Location],
    connect: &Connect,
    names: impl Fn(&Location, &Hosts) -> Result<Vec<Location>>,
    each: impl FnMut(&Argument<'_>, &mut dyn Write) -> Result<u64>,
) -> Exit {
    let hosts = Hosts::new(connect).printing(out::say);
    let places = wild::alternatives(places, &hosts);
    let named = places.iter().flat_map(|place| match names(place, &hosts) {
        Ok(named) => named.into_iter().map(Ok).collect(),
        Err(e) => vec![Err(e)],
    });
    over_named(named, &hosts, each)
}

fn over_named(
    named: impl Iterator<Item = Result<Location>>,
    hosts: &Hosts,
    mut each: impl FnMut(&Argument<'_>, &mut dyn Write) -> Result<u64>,
) -> Exit {
    let mut to = BufWriter::with_capacity(64 << 10, Claimed::default());
    let mut one = |place: Result<Location>, to: &mut dyn Write| {
        let place = place?;
        let asked = Argument::new(&place, hosts);
        each(&asked, to).map_err(|e| if e.path().is_some_and(|path| !path.is_empty()) || e.op() == "write" { e } else { e.at(&asked.path) })
    };
    let exits: Vec<Exit> = named
        .map(|place| match one(place, &mut to) {
            Ok(0) => Exit::Success,
            Ok(_) => Exit::Partial,
            Err(e) if is_gone(&e) => Exit::Success,
            Err(e) => {
                // What was printed so far comes before the complaint.
                let _flushed = to.flush();
                out::error(&e)
            }
        })
        .collect();
    let flushed = to.flush();
    match flushed {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => out::error(&Error::io(e, "write")),
        _ => out::of_arguments(&exits),
    }
}

/// Standard output, which nobody else writes to from the first bytes on until this is dropped: commands that run beside each
/// other print one after the other, and those that print nothing do not wait.
#[derive(Default)]
struct Claimed(Option<io::StdoutLock<'static>>);

impl Write for Claimed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if haul_run::stream::is_closed() {
            return Err(rustix::io::Errno::BADF.into());
        }
        self.0.get_or_insert_with(|| io::stdout().lock()).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// The reader of standard output has left (`haul ls | head`): a quiet end.
fn is_gone(e: &Error) -> bool {
    std::error::Error::source(e).and_then(|s| s.downcast_ref::<io::Error>()).is_some_and(|s| s.kind() == io::ErrorKind::BrokenPipe)
}

/// An error that all ranks have, said by one.
fn refused(ranks: Option<&Ranks>, e: &Error) -> Exit {
    if ranks.is_none_or(Ranks::leads) { out::error(e) } else { Exit::of_error(e, Mode::Copy) }
}

/// The same at rank 0 of several, which do each argument together.
fn together(
    places: &[Location],
    connect: &Connect,
    session: Option<&Arc<Session>>,
    mut each: impl FnMut(&Argument<'_>, &mut dyn Write, Option<Shared<'_>>) -> Result<u64>,
) -> Exit {
    let (mut argument, mut lost) = (0, false);
    over(places, connect, |path, to| {
        // The ranks cannot go on: said once.
        if lost {
            return Ok(1);
        }
        let done = each(path, to, session.map(|session| Shared { session, argument }));
        argument += 1;
        lost = shared::is_lost(session);
        done
    })
}

pub fn ls(flags: &LsFlags, global: &Global) -> Exit {
    let (json, threads) = (global.json, open::threads(flags.workers));
    let filter = match plan::filter(&flags.selection.filters, false) {
        Ok(filter) => filter,
        Err(e) => return out::error(&e),
    };
    let chosen = du::Chosen { filter: &filter, bounds: flags.selection.bounds, one_file_system: flags.selection.one_file_system };
    let hosts = Hosts::new(&flags.connect).printing(out::say);
    let named = files::operands(&flags.places, &hosts, json);
    let titled = named.len() > 1 && !json;
    let (long, all, human, recursive, etag) = (flags.long, flags.all, flags.human, flags.recursive, flags.etag);
    let how = files::Ls { chosen, long, all, human, recursive, etag, titled, json, threads };
    over_named(named.into_iter(), &hosts, |path, to| {
        if titled && path.location.scheme.keys {
            files::title(&path.path, to)?;
        }
        if path.location.scheme.keys && path.location.host.is_none() {
            return object_list::buckets(path, json, to).map(|()| 0);
        }
        match scope::of(path)? {
            Some(scope) if flags.uploads => object_list::uploads(path, &scope, how, to).map(|()| 0),
            Some(scope) if flags.versions => object_list::versions(path, &scope, how, to).map(|()| 0),
            Some(scope) => object_list::ls(path, &scope, how, to).map(|()| 0),
            None => files::ls(path, how, &Cancel::default(), &out::failure, to),
        }
    })
}

pub fn du(flags: &DuFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    let filter = match plan::filter(&flags.selection.filters, false) {
        Ok(filter) => filter,
        Err(e) => return refused(ranks, &e),
    };
    let depth = flags.depth.unwrap_or(DU_DEPTH);
    let how = du::How {
        depth,
        chosen: du::Chosen { filter: &filter, bounds: flags.selection.bounds, one_file_system: flags.selection.one_file_system },
        versions: flags.versions,
        threads: open::threads(flags.workers),
    };
    let each = |path: &Argument<'_>, to: &mut dyn Write, ranks: Option<Shared<'_>>| {
        let sums = du::count(path, how, &Cancel::default(), &out::failure, ranks)?;
        let written = match global.json {
            true => du::du_json(&path.path, depth, flags.by_class, &sums, to),
            false if flags.by_class => {
                du::by_class(flags.human, &sums, to).and_then(|()| du::du(&path.path, depth, flags.human, &sums, to))
            }
            false => du::du(&path.path, depth, flags.human, &sums, to),
        };
        written.map_err(|e| Error::io(e, "write"))?;
        Ok(sums.errors)
    };
    let lead = |session: Option<&Arc<Session>>| together(&flags.places, &flags.connect, session, each);
    let help = |stage, phase, path: &Argument<'_>| match phase {
        object_usage::RANGES => object_usage::help(stage, path, how),
        _ => du::help(stage, path, how, &Cancel::default(), &out::failure),
    };
    shared::run(ranks, &flags.places, &flags.connect, lead, help)
}

pub fn tree(flags: &TreeFlags, global: &Global) -> Exit {
    let filter = match plan::filter(&flags.selection.filters, false) {
        Ok(filter) => filter,
        Err(e) => return out::error(&e),
    };
    let how = tree::How {
        depth: flags.depth,
        all: flags.all,
        dirs_only: flags.dirs_only,
        sizes: flags.sizes,
        human: flags.human,
        json: global.json,
        chosen: du::Chosen { filter: &filter, bounds: flags.selection.bounds, one_file_system: flags.selection.one_file_system },
        threads: open::threads(flags.workers),
    };
    over(&flags.places, &flags.connect, |path, to| tree::tree(path, how, &Cancel::default(), &out::failure, to))
}

pub fn cat(flags: &CatFlags) -> Exit {
    over(&flags.places, &flags.connect, |path, to| scope::each_object(path, &mut |path| files::cat(path, to)).map(|()| 0))
}

pub fn mkdir(flags: &MkdirFlags) -> Exit {
    let literal = |place: &Location, _: &Hosts| Ok(vec![place.clone()]);
    over_names(&flags.places, &flags.connect, literal, |path, _| files::mkdir(path, flags.parents).map(|()| 0))
}

pub fn rm(flags: &RmFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    let filter = match plan::filter(&flags.selection.filters, false) {
        Ok(filter) => filter,
        Err(e) => return refused(ranks, &e),
    };
    let chosen = du::Chosen { filter: &filter, bounds: flags.selection.bounds, one_file_system: flags.selection.one_file_system };
    let chooses = !filter.is_empty() || chosen.bounds != Bounds::default() || chosen.one_file_system;
    let admit = |path: &[u8], object: &Object| object_usage::admits(chosen, path, object);
    let how = rm::Rm {
        recursive: flags.recursive,
        force: flags.force,
        quiet_missing: flags.ignore_missing,
        dry: flags.dry,
        threads: open::threads(flags.workers),
        chosen: chooses.then_some(chosen),
    };
    let reporter = remove_output::Reporter::new(global, flags.dry);
    let version = flags.connect.get::<haul_s3::Flags>().version_id;
    let of_keys = admin::Rm {
        recursive: flags.recursive,
        force: flags.force,
        quiet_missing: flags.ignore_missing,
        dry: flags.dry,
        versions: flags.versions,
        version: version.as_deref(),
        admit: chooses.then_some(&admit),
    };
    let each = |path: &Argument<'_>, _: &mut dyn Write, ranks: Option<Shared<'_>>| {
        let Some(scope) = scope::of_removed(path, flags.recursive || flags.uploads)? else {
            return rm::rm(path, how, &Cancel::default(), &out::failure, &|entry| reporter.entry(&path.path, entry), ranks);
        };
        let others = ranks.map(|ranks| move |failures| rm::keys(ranks, failures));
        let others = others.as_ref().map(|others| others as _);
        let told = admin::Reporter { failed: &out::failure, each: &|gone| reporter.key(&path.path, &scope, gone), others };
        let removed =
            if flags.uploads { admin::rm_uploads(&scope, chosen.bounds.older, of_keys, told) } else { admin::rm(&scope, of_keys, told) }?;
        match removed.left_dirs {
            0 => {}
            1 => out::say("1 directory matches, too, and was left alone; -r removes what is in it"),
            many => out::say(&format!("{many} directories match, too, and were left alone; -r removes what is in it")),
        }
        Ok(removed.failures)
    };
    let lead = |session: Option<&Arc<Session>>| together(&flags.places, &flags.connect, session, each);
    let help = |stage, phase, path: &Argument<'_>| {
        if phase == rm::KEYS {
            return rm::help_with_keys(stage, path, |scope, gone| reporter.key(&path.path, scope, gone));
        }
        rm::help(stage, phase, path, how, &Cancel::default(), &out::failure, &|entry| reporter.entry(&path.path, entry))
    };
    let exit = shared::run(ranks, &flags.places, &flags.connect, lead, help);
    if ranks.is_none_or(Ranks::leads) { reporter.end(exit) } else { exit }
}

pub fn ln(flags: &LnFlags, global: &Global) -> Exit {
    over_names(
        std::slice::from_ref(&flags.link),
        &flags.connect,
        |place, _| Ok(vec![place.clone()]),
        |path, to| ln::ln(path, flags, global, to),
    )
}

pub fn set(flags: &SetFlags, global: &Global) -> Exit {
    over(&flags.places, &flags.connect, |path, _| set::set(path, flags, global))
}

pub fn df(flags: &DfFlags, global: &Global) -> Exit {
    let mut titled = global.json;
    over(&flags.places, &flags.connect, |path, to| {
        let mut line = Vec::new();
        df::df(path, flags, global.json, &mut line)?;
        // Above the first line, if there is one.
        let title = if std::mem::replace(&mut titled, true) { String::new() } else { df::title(flags) };
        to.write_all(title.as_bytes()).and_then(|()| to.write_all(&line)).map_err(|e| Error::io(e, "write"))?;
        Ok(0)
    })
}

pub fn mb(flags: &MbFlags) -> Exit {
    over(&flags.places, &flags.connect, |path, _| {
        let name = path.location.host.as_deref().unwrap_or_default();
        haul_s3::host::client(path.hosts.access(), path.location)?.make_bucket(name).map(|()| 0).map_err(|e| e.at(&path.path))
    })
}

pub fn rb(flags: &RbFlags, global: &Global) -> Exit {
    let reporter = remove_output::Reporter::new(global, flags.dry);
    let exit = over(&flags.places, &flags.connect, |path, _| {
        let Some(scope) = scope::of(path)? else { return Ok(0) };
        let told = admin::Reporter { failed: &out::failure, each: &|gone| reporter.key(&path.path, &scope, gone), others: None };
        admin::remove_bucket(&scope, flags.force, flags.dry, told).map(|removed| removed.failures)
    });
    reporter.end(exit)
}

pub fn head(flags: &HeadFlags, global: &Global) -> Exit {
    over(&flags.places, &flags.connect, |path, to| scope::each_object(path, &mut |path| head::head(path, global.json, to)).map(|()| 0))
}

pub fn object(flags: &ObjectFlags, global: &Global) -> Exit {
    over(&flags.places, &flags.connect, |path, to| object::object(path, flags, global, to))
}

pub fn presign(flags: &PresignFlags, global: &Global) -> Exit {
    over(&flags.places, &flags.connect, |path, to| {
        let mut one = |path: &Argument<'_>| presign::presign(path, flags.method, flags.expires, global.json, to);
        // Somebody else writes to just this key.
        match flags.method {
            PresignMethod::Get => scope::each_object(path, &mut one).map(|()| 0),
            PresignMethod::Put => one(path).map(|()| 0),
        }
    })
}

pub fn sum(flags: &SumFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    let (algorithm, format) = match flags.format {
        SumFormat::Blake3 => (Algorithm::Blake3, Format::Manifest),
        SumFormat::Sha256sum => (Algorithm::Sha256, Format::Coreutils),
        SumFormat::Md5sum => (Algorithm::Md5, Format::Coreutils),
        SumFormat::Sha1sum => (Algorithm::Sha1, Format::Coreutils),
        SumFormat::Sha512sum => (Algorithm::Sha512, Format::Coreutils),
        SumFormat::Xxh128sum => (Algorithm::Xxh128, Format::Coreutils),
    };
    let lists = flags.output.is_some() || !global.json;
    if flags.sources.len() > 1 && format == Format::Manifest && lists {
        let e = Error::new(ErrorKind::Usage, "sum").because("a manifest covers one directory or file");
        let e = e.hint("run it once for each, or choose a --format of the coreutils");
        return refused(ranks, &e);
    }
    let filter = match plan::filter(&flags.selection.filters, false) {
        Ok(filter) => filter,
        Err(e) => return refused(ranks, &e),
    };
    let chosen = du::Chosen { filter: &filter, bounds: flags.selection.bounds, one_file_system: flags.selection.one_file_system };
    let omitted = flags.output.as_deref().map(output::files).unwrap_or_default();
    let choice = sum::Choice { chosen, algorithm, format, omitted: &omitted };
    let cancel = Cancel::default();
    let meter = Meter::new(cancel.clone(), ranks::share_limit(ranks, flags.performance.bandwidth));
    let reading = sum::Reading { workers: flags.performance.workers, cancel: &cancel, meter: &meter };
    let each =
        |path: &Argument<'_>, out: sum::Outputs<'_>, ranks: Option<Shared<'_>>| sum::sum(path, &choice, reading, &out::failure, out, ranks);
    let lead = |session: Option<&Arc<Session>>| {
        let Some(output) = &flags.output else {
            return together(&flags.sources, &flags.connect, session, |path, to, ranks| {
                let to: Option<&mut dyn Write> = Some(to);
                let (manifest, json) = if global.json { (None, to) } else { (to, None) };
                each(path, sum::Outputs { manifest, json }, ranks)
            });
        };
        let hosts = Hosts::new(&flags.connect).printing(out::say);
        let written = output::write(output, |to| {
            let mut told = global.json.then(|| BufWriter::with_capacity(64 << 10, Claimed::default()));
            flags.sources.iter().enumerate().try_fold(0, |n, (argument, place)| {
                let json = told.as_mut().map(|told| told as &mut dyn Write);
                let outputs = sum::Outputs { manifest: Some(&mut *to), json };
                let ranks = session.map(|session| Shared { session, argument });
                each(&Argument::new(place, &hosts), outputs, ranks).map(|more| n + more)
            })
        });
        match written {
            Ok(0) => Exit::Success,
            Ok(_) => Exit::Partial,
            Err(e) => out::error(&e),
        }
    };
    let wants = (lists, global.json);
    let help = |stage, _, path: &Argument<'_>| sum::help(stage, path, &choice, reading, &out::failure, wants);
    shared::run(ranks, &flags.sources, &flags.connect, lead, help)
}

pub fn check(flags: &CheckFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    match &flags.manifest {
        None => transfer::check(flags, global, ranks),
        Some(input) => manifest::check(flags, input, global, ranks),
    }
}
