//! cp, sync, mv and check: from flags to a job, to a run, to an exit code.
//!
//! ```text
//! flags -> places (stores, what of them, the slash rule) -> guard (same, inside) -> Job -> run -> Exit
//! ```

mod guard;
mod lists;
mod only;
mod places;
mod run;
mod stdio;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_core::entry::{MetaMask, Name};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::event::Action;
use haul_core::job::{Job, Links, Mode, Pick, Root};
use haul_core::journal::Identity;
use haul_core::place::OpenOptions;
use haul_core::store::Store;

use crate::exit::Exit;
use crate::flags::copy::CopyKind;
use crate::flags::select::Listed;
use crate::flags::{CheckFlags, CopyFlags, Global};
use crate::hosts::Hosts;
use crate::location::Location;
use crate::owners;
use crate::render;

pub use run::Session;

/// Chunks of a large file: what a kill loses at the most, a worker; and the kernel's copy call takes no more at once.
const CHUNK: u64 = 16 << 20;
/// The same where several workers write one file over a network: small enough that they end together.
const CHUNK_FAR: u64 = 4 << 20;

/// cp, sync and mv.
pub fn copy(flags: &CopyFlags, global: &Global) -> Exit {
    if flags.list_only {
        return only::list(flags, global);
    }
    let addressed;
    let flags = match flags.listed.files_from.as_ref().filter(|_| flags.sources.is_empty()) {
        None => flags,
        Some(input) => match lists::addresses(input, flags.listed.from0) {
            Ok(sources) => {
                let listed = Listed { files_from: None, ..flags.listed.clone() };
                addressed = CopyFlags { sources, listed, ..flags.clone() };
                &addressed
            }
            Err(e) => return crate::out::error(&e),
        },
    };
    if let Some(done) = stdio::copy(flags, global) {
        return done.unwrap_or_else(|e| crate::out::error(&e));
    }
    match prepare(flags, global) {
        Ok(prepared) => {
            let options = run::RenderChoice {
                dry: flags.dry,
                itemize: flags.itemize,
                stat: flags.stat,
                names: None,
                lists: Vec::new(),
                run: &flags.run,
                zero: flags.listed.from0,
                mode: render_mode(flags.kind),
            };
            let session = match Session::open(global, options) {
                Ok(session) => session,
                Err(e) => return crate::out::error(&e),
            };
            prepared.notes.iter().for_each(|note| session.renderer.say(note));
            let reached = prepared.job.target.place().service();
            let identity = Identity { reached, ..identity(&flags.sources, flags.destination.as_ref()) };
            let journal = run::JournalChoice { restart: flags.restart, wait: flags.wait, kept: !flags.dry };
            let report = session.run(prepared.job, &prepared.sentence, &identity, journal, prepared.missing);
            prepared.hosts.finish();
            match report {
                Ok(report) => session.exit(&report, Mode::Copy),
                Err(e) => crate::out::error(&e),
            }
        }
        Err(e) => stdio::from_web(&e, flags, global).unwrap_or(Err(e)).unwrap_or_else(|e| crate::out::error(&e)),
    }
}

fn render_mode(kind: CopyKind) -> render::Mode {
    if kind == CopyKind::Sync { render::Mode::Sync } else { render::Mode::Copy }
}

/// What is to be run, and what of the command line cannot be.
struct Prepared {
    job: Job,
    sentence: String,
    /// Sources that are not there.
    missing: Vec<Error>,
    /// What the user should know first.
    notes: Vec<String>,
    hosts: Hosts,
}

fn identity(sources: &[Location], destination: Option<&Location>) -> Identity {
    let absolute = |location: &Location| {
        if location.is_remote() {
            return location.to_string();
        }
        let mut path = places::absolute(&location.path);
        if location.means_contents() {
            path.push(b'/');
        }
        haul_core::entry::show(&path)
    };
    let target = destination.map(absolute).unwrap_or_default();
    Identity { sources: sources.iter().map(absolute).collect(), target, ..Identity::default() }
}

fn prepare(flags: &CopyFlags, global: &Global) -> Result<Prepared> {
    let Some(destination) = &flags.destination else {
        return Err(Error::new(ErrorKind::Usage, "copy").because("no destination"));
    };
    let place = crate::open::path_of(&destination.path);
    let was_there = destination.is_remote() || place.symlink_metadata().is_ok();
    prepare_at(flags, global, destination, &place, was_there).inspect_err(|_| {
        // What is refused leaves nothing behind; a directory that somebody has filled meanwhile stays.
        if !was_there {
            let _stays = std::fs::remove_dir(&place);
        }
    })
}

fn prepare_at(flags: &CopyFlags, global: &Global, destination: &Location, place: &Path, was_there: bool) -> Result<Prepared> {
    // What can be wrong with the arguments alone is said before anything is made.
    let filter = lists::filter(&flags.select.filters, flags.listed.from0)?;
    let input = flags.listed.files_from.as_ref();
    let listed = input.map(|input| lists::listed(input, flags.listed.from0, &std::env::temp_dir())).transpose()?;
    if let Some(dir) = flags.backup_dir.as_ref().filter(|dir| dir.is_relative()) {
        places::below(b"", dir)?;
    }
    let options = OpenOptions {
        keep_dirlinks: flags.keep.links.keep_dirlinks,
        one_file_system: flags.select.one_file_system,
        keep_modes: flags.keep.mask.has(MetaMask::MODE),
        keep_acls: flags.keep.mask.has(MetaMask::ACL),
        untrusted: !destination.scheme.keys,
        umask: Some(global.umask),
        ..OpenOptions::default()
    };
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref()).patient(flags.run.timeout);
    let hosts = hosts.compressing(flags.transport.compress).streaming(flags.transport.streams);
    let asked = places::Asked {
        hosts: &hosts,
        sources: &flags.sources,
        destination,
        options,
        follow: flags.keep.links.follow,
        dry: flags.dry,
        make_path: flags.make_path,
        listed: flags.listed.files_from.is_some(),
    };
    let mut places = places::resolve(&asked)?;
    let avoid = if flags.list_only { Vec::new() } else { guard::check(&places, flags.delete.is_some())? };
    if let (Some(listed), Some(root)) = (listed, places.roots.first_mut()) {
        root.pick = listed;
    }
    if flags.delete.is_some() && places.roots.iter().any(|root| matches!(root.pick, Pick::Listed(_))) {
        let e = Error::new(ErrorKind::Usage, "--delete").because("--delete cannot be combined with wildcards");
        return Err(e.hint("name the directory, and select files with --include and --exclude"));
    }
    let (link_dest, notes) = places::link_dest(&flags.link_dest, &places, &asked)?;
    let delete = flags.delete;
    let is_root = rustix::process::geteuid().is_root();
    // A directory that a dry run has not made asks nobody; that changes nothing of what the run says.
    let owner = match flags.keep.chown.as_ref().map(|owner| owners::numbers(&*places.target, owner)).transpose() {
        Err(e) if flags.dry && e.kind() == ErrorKind::Unsupported => None,
        owner => owner?,
    };
    let mut keep = if is_root { flags.keep.mask } else { flags.keep.mask.without(MetaMask::CONTEXT) };
    if let Some((user, group)) = owner {
        keep = keep.with(if user.is_some() { MetaMask::OWNER } else { MetaMask::NONE });
        keep = keep.with(if group.is_some() { MetaMask::GROUP } else { MetaMask::NONE });
    }
    let over_network = !places.target.caps().cheap_stat || places.roots.iter().any(|root| !root.store.caps().cheap_stat);
    let target_caps = (places.target.caps().writers_per_file > 1, places.target.caps().cheap_stat);
    let distrusted = places.roots.iter().any(|root| root.store.caps().untrusted);
    let job = Job {
        mode: Mode::Copy,
        roots: places.roots,
        rename: places.rename,
        policy: flags.policy,
        links: Links { devices: !distrusted, ..flags.keep.links },
        filter,
        bounds: flags.select.bounds,
        keep,
        sparse: flags.keep.sparse,
        in_place: flags.in_place,
        delta: !flags.transport.whole_file && over_network,
        one_file_system: flags.select.one_file_system,
        sync: flags.sync,
        verify: flags.verify,
        delete: delete.is_some(),
        delete_excluded: delete.is_some_and(|d| d.excluded),
        ignore_errors: delete.is_some_and(|d| d.ignore_errors),
        max_delete: delete.and_then(|d| d.max),
        backup: flags.backup_dir.as_ref().map(|dir| places::below(&places.target_path, dir)).transpose()?,
        remove_source: flags.remove_source,
        remove_dirs: flags.kind == CopyKind::Mv,
        force: flags.policy.force,
        one_way: false,
        dry: flags.dry,
        workers: if flags.dry || flags.itemize { Some(flags.speed.workers.unwrap_or(1)) } else { flags.speed.workers },
        writers: flags.transport.concurrency,
        chunk: flags.transport.chunk.unwrap_or(if target_caps.0 && !target_caps.1 { CHUNK_FAR } else { CHUNK }),
        limit: flags.speed.bwlimit,
        retries: haul_core::retry::Policy::of(flags.run.retries),
        progress: Duration::from_secs(30),
        deadline: flags.run.deadline,
        timeout: flags.run.timeout,
        link_dest,
        ordered: flags.dry,
        avoid,
        state: None,
        recurse_listed: flags.listed.recurse && flags.listed.files_from.is_some(),
        owner,
        numeric_ids: flags.keep.numeric_ids,
        chmod: flags.keep.chmod.clone(),
        target: places.target,
    };
    let mut job = job;
    if flags.kind == CopyKind::Mv && !destination.is_remote() && may_rename(&job) {
        let target = job.target.clone();
        places::rename_within(&mut job.roots, &*target, place);
    }
    let verb = match flags.kind {
        CopyKind::Mv => "moves",
        CopyKind::Sync => "syncs",
        CopyKind::Cp => "copies",
    };
    let mut sentence = places::sentence(verb, &flags.sources, destination, &job, &hosts);
    if distrusted && job.links.specials {
        sentence.push_str(", without devices and setuid bits (--trust-metadata)");
    }
    let data_path = hosts.data_path(&flags.sources, destination);
    if !data_path.is_empty() {
        sentence.push_str(", ");
        sentence.push_str(data_path);
    }
    let mut notes = notes;
    let config = hosts.access().get::<haul_stores::ssh::Flags>().ssh_config;
    notes.extend(host_without_colon(destination, was_there, config.as_deref()));
    Ok(Prepared { job, sentence, missing: places.missing, notes, hosts })
}

/// `haul cp data cluster`, where cluster is a host: a new directory of this name is hardly meant.
fn host_without_colon(destination: &Location, was_there: bool, config: Option<&std::path::Path>) -> Option<String> {
    if destination.is_remote() || was_there || destination.trailing_slash {
        return None;
    }
    let name = crate::known::named(&destination.path, config)?;
    Some(format!("{name} is a local name and also a host in the ssh configuration; for the host write {name}:"))
}

/// Whether a rename does what the move asks for: everything goes, as it is.
fn may_rename(job: &Job) -> bool {
    let all = Links { follow: false, safe: false, copy: true, hard: true, specials: true, ..job.links };
    job.filter.is_empty()
        && job.bounds == haul_core::job::Bounds::default()
        && job.links == all
        && job.owner.is_none()
        && job.chmod.is_empty()
        && !job.one_file_system
        && job.roots.iter().all(|root| !matches!(root.pick, Pick::Listed(_)))
}

/// check: both trees are read, nothing is written.
pub fn check(flags: &CheckFlags, source: &Location, global: &Global) -> Exit {
    let prepared = match prepare_check(flags, source, global) {
        Ok(prepared) => prepared,
        Err(e) => return crate::out::error_in(&e, Mode::Check),
    };
    let options = run::RenderChoice {
        dry: false,
        itemize: false,
        stat: false,
        // Bare names between lines of JSON would be neither.
        names: (global.quiet && !global.json).then_some(flags.listed.from0),
        lists: [(Action::Missing, &flags.missing_to), (Action::Extra, &flags.extra_to), (Action::Differs, &flags.differing_to)]
            .into_iter()
            .filter_map(|(action, path)| Some((action, path.clone()?)))
            .collect(),
        run: &flags.run,
        zero: flags.listed.from0,
        mode: render::Mode::Check,
    };
    let ran = Session::open(global, options).and_then(|session| {
        let identity = identity(std::slice::from_ref(source), Some(&flags.tree));
        let journal = run::JournalChoice { restart: false, wait: false, kept: false };
        let report = session.run(prepared.job, &prepared.sentence, &identity, journal, Vec::new());
        prepared.hosts.finish();
        Ok(session.exit(&report?, Mode::Check))
    });
    ran.unwrap_or_else(|e| crate::out::error_in(&e, Mode::Check))
}

fn prepare_check(flags: &CheckFlags, source: &Location, global: &Global) -> Result<Prepared> {
    let sources = [source.clone()];
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref()).patient(flags.run.timeout);
    let asked = places::Asked {
        hosts: &hosts,
        sources: &sources,
        destination: &flags.tree,
        options: OpenOptions::default(),
        follow: flags.keep.links.follow,
        dry: true,
        make_path: false,
        listed: flags.listed.files_from.is_some(),
    };
    let mut places = places::resolve(&asked)?;
    if let Some(e) = places.missing.pop() {
        return Err(e);
    }
    if let Some(input) = &flags.listed.files_from
        && let Some(root) = places.roots.first_mut()
    {
        root.pick = lists::listed(input, flags.listed.from0, &std::env::temp_dir())?;
    }
    let job = Job {
        rename: places.rename,
        policy: flags.policy,
        links: Links { copy: true, ..flags.keep.links },
        filter: lists::filter(&flags.select.filters, flags.listed.from0)?,
        bounds: flags.select.bounds,
        keep: flags.keep.mask.with(MetaMask::MTIME),
        one_file_system: flags.select.one_file_system,
        one_way: flags.one_way || !matches!(places.first_pick, places::FirstPick::Contents),
        workers: flags.speed.workers,
        chunk: CHUNK,
        limit: flags.speed.bwlimit,
        retries: haul_core::retry::Policy::of(flags.run.retries),
        progress: Duration::from_secs(30),
        deadline: flags.run.deadline,
        timeout: flags.run.timeout,
        recurse_listed: flags.listed.files_from.is_some(),
        numeric_ids: flags.keep.numeric_ids,
        ..Job::new(Mode::Check, places.roots, places.target)
    };
    let sentence = places::sentence("checks", &sources, &flags.tree, &job, &hosts);
    Ok(Prepared { job, sentence, missing: Vec::new(), notes: Vec::new(), hosts })
}

/// The rules of a command that takes filters but is no copy.
pub fn filter(select: &crate::flags::select::Select) -> Result<haul_core::filter::Filter> {
    lists::filter(&select.filters, false)
}

/// A store and what of it is meant, as the job wants it.
fn root(store: Arc<dyn Store>, pick: Pick) -> Root {
    Root::new(store, pick)
}

/// Whether a name stands there, of whatever kind.
fn stands(store: &dyn Store, leaf: &[u8]) -> Result<Option<haul_core::entry::Entry>> {
    match store.stat(&Name::new(&haul_core::entry::Dir::root(), leaf), MetaMask::NONE) {
        Ok(entry) => Ok(Some(entry)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
