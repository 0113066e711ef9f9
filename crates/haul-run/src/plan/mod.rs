//! From a spec to a job: opens the places, and refuses what must not be.
//!
//! ```text
//! TransferSpec -> endpoints (stores, what of them, the slash rule) -> guard (same, inside) -> Job
//! ```

mod beside;
mod destination;
mod endpoints;
mod guard;
mod link_dest;
mod lists;
mod record;

use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use haul_core::entry::MetaMask;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::xxh128;
use haul_core::job::{Bounds, Job, Links, Mode, Pick};
use haul_core::journal::{Identity, State, default_root};
use haul_core::place::provider::Access;
use haul_core::place::{OpenOptions, Scheme};
use haul_core::plan::{Compare, Policy};
use haul_core::spec::{FilterRule, Operation, Selection, TransferSpec};
use haul_core::store::{Runs, Store, WriteStyle};

use crate::hosts::Hosts;
use crate::location::Location;
use crate::outlet::{self, Outlet};
use crate::owners;

/// Chunks of a large file: what a kill loses at the most, a worker; and the kernel's copy call takes no more at once.
const CHUNK: u64 = 16 << 20;
/// The same where several workers write one file over a network: small enough that they end together.
const CHUNK_REMOTE: u64 = 4 << 20;

/// Objects up to this size are sent by one request, unless a size of parts was asked for.
const ONE_PART: u64 = 16 << 20;

/// Parts of an object where nobody knows how many there will be: 10,000 of them are 305 GiB.
const STREAM_PART: u64 = 32 << 20;

pub use endpoints::absolute;
pub use lists::{addresses, filter};
pub use record::{recorded, text};

/// How this run does what the spec says.
#[derive(Clone, Debug, Default)]
pub struct RunMode {
    /// Show what would be done.
    pub dry: bool,
    /// Each change has a line: in an order that people can follow.
    pub itemized: bool,
    /// Refuse what would destroy a source.
    pub guarded: bool,
    /// One of several ranks.
    pub together: bool,
    /// For a rank that follows another, which alone reads lists of names.
    pub follows: bool,
    /// `-t` was given, which means something else to cp(1).
    pub gives_t: bool,
    /// `None`: that of this user, see [`default_root`].
    pub state_dir: Option<PathBuf>,
    /// The file mode creation mask for new directories and files; `None`: that of the process.
    pub umask: Option<u32>,
    /// Prints a line for the user about a host.
    pub print: Option<fn(&str)>,
}

/// What is to be run, and what of the spec cannot be.
pub struct Plan {
    pub job: Job,
    pub identity: Identity,
    /// Devices and setuid bits are left out: a source may be another user's.
    pub distrusted: bool,
    /// Sources that do not exist.
    pub missing: Vec<Error>,
    /// What the user should know first.
    pub notes: Vec<String>,
    pub hosts: Hosts,
}

/// Opens the places of a transfer.
///
/// # Errors
/// `Usage` for what contradicts the places; what keeps them from being opened. Nothing is left at the destination then.
pub fn open(spec: &TransferSpec, mode: &RunMode, access: &Access) -> Result<Plan> {
    let place = crate::open::path_of(&spec.destination.path);
    let existed = spec.destination.scheme != Scheme::LOCAL || place.symlink_metadata().is_ok();
    let has_made = Cell::new(false);
    open_places(spec, mode, access, (existed, &has_made)).inspect_err(|_| {
        // What is refused leaves nothing behind; a directory that somebody has filled meanwhile stays.
        if !existed && has_made.get() {
            let _ = std::fs::remove_dir(&place);
        }
    })
}

/// As much of a spec as holds for standard input: a file of now, which always replaces what is there.
fn of_stream(spec: &TransferSpec) -> TransferSpec {
    let keep = if spec.destination.scheme.keys { MetaMask::MTIME } else { MetaMask::NONE };
    let mut spec = spec.clone();
    spec.comparison = Policy { compare: Compare::Never, force: spec.comparison.force, ..Policy::DEFAULT };
    (spec.selection, spec.attributes.keep) = (Selection::default(), keep);
    spec.performance.chunk = Some(spec.performance.chunk.unwrap_or(STREAM_PART));
    spec
}

fn open_places(typed: &TransferSpec, mode: &RunMode, access: &Access, (existed, has_made): (bool, &Cell<bool>)) -> Result<Plan> {
    let spec = typed;
    let is_check = matches!(spec.operation, Operation::Check { .. });
    let outlet = if is_check { None } else { Outlet::of(spec) };
    let mut narrowed = spec.clone();
    if spec.sources.iter().any(|source| source.scheme == Scheme::STDIO) {
        narrowed = of_stream(&narrowed);
    }
    if outlet.is_some() {
        narrowed = outlet::bytes_only(&narrowed);
    }
    let spec = &narrowed;
    let TransferSpec { selection, attributes, safety, performance, destination, sources, .. } = spec;
    // What can be wrong with the arguments alone is reported before anything is created.
    let filter = lists::filter(&selection.filters, selection.nul_separated)?;
    let input = selection.files_from.as_ref();
    let spill = std::env::temp_dir();
    let listed = |input| match mode.follows {
        true => Ok(lists::Names::default()),
        false => lists::listed(input, selection.nul_separated, selection.recurse_listed, &spill),
    };
    let mut listed = input.map(listed).transpose()?;
    let bases = listed.as_ref().map(lists::Names::bases).unwrap_or_default();
    if mode.together && !bases.is_empty() {
        let e = Error::new(ErrorKind::Usage, "--files-from").because("several processes cannot share a list with /./ in it");
        return Err(e.hint("name that directory as the source"));
    }
    if let Some(dir) = safety.backup_dir.as_ref().filter(|dir| dir.is_relative()) {
        destination::below(b"", dir)?;
    }
    let parts = haul_s3::PART_LEAST..=haul_s3::PART_MOST;
    if destination.scheme.keys
        && let Some(size) = spec.performance.chunk.filter(|size| !is_check && !parts.contains(size))
    {
        let e = Error::new(ErrorKind::Usage, "--part-size (--chunk-size)");
        let e = e.because(format!("an object's parts have 5 MiB to 5 GiB, not {size} bytes"));
        return Err(e.hint("leave it out: the size is chosen by the object's"));
    }
    // Between buckets keys stay as they are, also those that can be no file names.
    let mut access = access.clone();
    access.print = mode.print;
    if destination.scheme.keys && sources.iter().all(|source| source.scheme.keys) {
        access.change(|flags: &mut haul_s3::Flags| flags.map_keys = true);
    }
    let hosts = Hosts::for_data(&access, mode.state_dir.as_deref()).patient(spec.limits.timeout);
    let hosts = hosts.compressing(performance.compress).streaming(performance.streams);
    if !safety.link_dest.is_empty() {
        link_dest::refuse(destination, &hosts)?;
    }
    let asked = endpoints::EndpointRequest {
        hosts: &hosts,
        sources,
        destination,
        options: match is_check {
            true => OpenOptions::default(),
            // What writes nothing needs no state directory.
            false => OpenOptions { lineage: if mode.dry { 0 } else { lineage(mode) }, ..destination_options(spec, mode) },
        },
        follow: attributes.links.follow,
        dry: mode.dry || is_check,
        is_check,
        make_path: safety.make_path,
        exact: safety.exact,
        gives_t: mode.gives_t,
        listed: input.is_some(),
        bases: &bases,
        filter: &filter,
        outlet: outlet.as_ref(),
        reads_specials: outlet.is_some() || !(is_check || attributes.links.specials || safety.remove_source),
        backup_dir: safety.backup_dir.as_deref(),
        deletes: spec.deletion.is_some(),
        has_made,
    };
    let mut places = endpoints::resolve(&asked)?;
    if let Some(e) = places.missing.pop_if(|_| is_check) {
        return Err(e);
    }
    let streams = places.roots.iter().any(|root| root.store.caps().streams);
    if is_check && streams {
        let e = Error::new(ErrorKind::Unsupported, "check").because("the server does not report the file's length");
        return Err(e.hint("copy it, and compare the copy"));
    }
    let of_objects: haul_s3::Flags = asked.hosts.access().get();
    let onto_itself = (of_objects.version_id.is_some() || of_objects.wishes()) && spec.deletion.is_none() && !spec.safety.remove_source;
    let avoid = if mode.guarded { guard::check(&places, &asked, onto_itself)? } else { Vec::new() };
    if let Some(listed) = &mut listed {
        let bases = [Vec::new()].into_iter().chain(bases.iter().cloned());
        for (root, base) in places.roots.iter_mut().zip(bases) {
            root.pick = listed.pick(&base, &*root.store, &spill)?;
        }
    }
    let (link_dest, mut notes) = link_dest::link_dest(&safety.link_dest, &places, &asked)?;
    let includes = |rule: &FilterRule| matches!(rule, FilterRule::Include(_) | FilterRule::IncludeFrom(_));
    if !selection.filters.is_empty() && selection.filters.iter().all(includes) {
        notes.push("--include alone selects nothing: everything is copied; for only these names add --include '*/' --exclude '*'".into());
    }
    let owner = owner(spec, &*places.target, mode.dry)?;
    let distrusted = !is_check && places.roots.iter().any(|root| root.store.caps().attributes.untrusted);
    let target_caps = places.target.caps();
    let over_network = target_caps.remote || places.roots.iter().any(|root| root.store.caps().remote);
    let chunk = if streams {
        STREAM_PART
    } else if places.roots.iter().any(|root| matches!(root.store.caps().tuning.runs, Runs::Open | Runs::Fixed))
        || target_caps.tuning.writers_per_file > 1 && target_caps.write != WriteStyle::InOrder && target_caps.remote && !is_check
    {
        CHUNK_REMOTE
    } else {
        CHUNK
    };
    let one_way = match spec.operation {
        Operation::Check { one_way } => one_way || places.first_pick != endpoints::FirstPick::Contents,
        _ => false,
    };
    // The size of a pipe or a device says nothing.
    let has_pipe = places.roots.iter().any(|root| root.store.place().scheme == "stream");
    let policy = if has_pipe { Policy { compare: Compare::Never, ..spec.comparison } } else { spec.comparison };
    let mut job = Job {
        mode: if is_check { Mode::Check } else { Mode::Copy },
        roots: places.roots,
        rename: places.rename,
        policy,
        links: Links { devices: !distrusted, copy: attributes.links.copy || is_check, ..attributes.links },
        filter,
        bounds: selection.bounds,
        keep: match is_check && spec.comparison.compare != Compare::Content {
            true => kept(spec, owner).with(MetaMask::MTIME),
            false => kept(spec, owner),
        },
        sparse: attributes.sparse,
        in_place: safety.in_place,
        delta: !performance.whole_file && over_network,
        one_file_system: selection.one_file_system,
        sync: safety.sync,
        verify: safety.verify,
        deletion: spec.deletion,
        backup: safety.backup_dir.as_ref().map(|dir| destination::below(&places.target_path, dir)).transpose()?,
        remove_source: safety.remove_source,
        remove_dirs: spec.operation == Operation::Move,
        one_way,
        dry: mode.dry,
        workers: performance.workers.or((mode.dry || mode.itemized).then_some(1)),
        writers: performance.concurrency,
        chunk: performance.chunk.unwrap_or(chunk),
        one_part: if performance.chunk.is_some() { 0 } else { ONE_PART },
        limit: performance.bandwidth,
        retries: haul_core::retry::Policy::of(spec.limits.retries),
        progress: Duration::from_secs(30),
        deadline: spec.limits.deadline,
        timeout: spec.limits.timeout,
        link_dest,
        ordered: mode.dry,
        avoid,
        state: None,
        recurse_listed: selection.recurse_listed && input.is_some(),
        owner,
        numeric_ids: attributes.numeric_ids,
        chmod: attributes.chmod.clone(),
        target: places.target,
    };
    if spec.operation == Operation::Move && may_rename(&job) {
        let target = job.target.clone();
        match destination.is_remote() {
            true => destination::rename_there(&mut job.roots, &*target, &hosts, spec),
            false => destination::rename_within(&mut job.roots, &*target, &crate::open::path_of(&destination.path)),
        }
    }
    if !is_check {
        let config = hosts.access().get::<haul_ssh::ssh::Flags>().ssh_config;
        notes.extend(host_without_colon(destination, existed, config.as_deref()));
    }
    let identity = Identity { reached: job.target.place().service(), ..identity(typed) };
    Ok(Plan { job, identity, distrusted, missing: places.missing, notes, hosts })
}

/// Names of sources and destination under which the journal is found again.
fn identity(spec: &TransferSpec) -> Identity {
    let absolute = |location: &Location| {
        if location.is_remote() || location.scheme == Scheme::STDIO {
            return location.to_string();
        }
        let mut path = endpoints::absolute(&location.path);
        if location.means_contents() {
            path.push(b'/');
        }
        haul_core::entry::show(&path)
    };
    Identity { sources: spec.sources.iter().map(absolute).collect(), target: absolute(&spec.destination), ..Identity::default() }
}

fn destination_options(spec: &TransferSpec, mode: &RunMode) -> OpenOptions {
    OpenOptions {
        keep_dirlinks: spec.attributes.links.keep_dirlinks,
        one_file_system: spec.selection.one_file_system,
        keep_modes: spec.attributes.keep.has(MetaMask::MODE),
        keep_acls: spec.attributes.keep.has(MetaMask::ACL),
        untrusted: !spec.destination.scheme.keys,
        umask: mode.umask,
        blind: may_be_blind(spec),
        stripe: spec.performance.stripe,
        ..OpenOptions::default()
    }
}

/// A number of the state directory. Runs that have the same one exclude and resume each other; others must not take each other's
/// unfinished files. 0 without a state directory: then it is the name by which the next run finds what this one left.
fn lineage(mode: &RunMode) -> u64 {
    let root = mode.state_dir.clone().or_else(|| default_root(|name| std::env::var_os(name)));
    let facts = root.and_then(|root| State::open(root).ok()).and_then(|state| state.root().metadata().ok());
    facts.map_or(0, |facts| {
        let born = facts.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        xxh128(format!("{} {}", facts.ino(), born.as_nanos()).as_bytes()) as u64
    })
}

/// Whether it does not matter what is at the destination: a rule that depends on it has to see it.
fn may_be_blind(spec: &TransferSpec) -> bool {
    let Policy { update, existing, ignore_existing, .. } = spec.comparison;
    !(update || existing || ignore_existing || spec.deletion.is_some() || spec.safety.backup_dir.is_some())
}

/// Owner and group that all entries get, as the destination numbers them.
type OwnerIds = Option<(Option<u32>, Option<u32>)>;

fn owner(spec: &TransferSpec, target: &dyn Store, dry: bool) -> Result<OwnerIds> {
    match spec.attributes.owner.as_ref().map(|owner| owners::numbers(target, owner)).transpose() {
        // A directory that a dry run has not made asks nobody; that changes nothing of what the run prints.
        Err(e) if dry && e.kind() == ErrorKind::Unsupported => Ok(None),
        owner => owner,
    }
}

fn kept(spec: &TransferSpec, owner: OwnerIds) -> MetaMask {
    let keep = spec.attributes.keep;
    let keep = if rustix::process::geteuid().is_root() { keep } else { keep.without(MetaMask::CONTEXT) };
    let (user, group) = owner.unwrap_or_default();
    let set = |id: Option<u32>, class| if id.is_some() { class } else { MetaMask::NONE };
    keep.with(set(user, MetaMask::OWNER)).with(set(group, MetaMask::GROUP))
}

/// `haul cp data cluster`, where cluster is a host: a new directory of this name is hardly meant.
fn host_without_colon(destination: &Location, existed: bool, config: Option<&Path>) -> Option<String> {
    if destination.is_remote() || existed || destination.trailing_slash {
        return None;
    }
    let name = crate::known::named(&destination.path, config)?;
    Some(format!("{name} is a local name and also a host in the ssh configuration; for the host write {name}:"))
}

/// Whether a rename does what the move asks for: everything goes, as it is.
fn may_rename(job: &Job) -> bool {
    let all = Links { follow: false, safe: false, copy: true, hard: true, specials: true, ..job.links };
    job.filter.is_empty()
        && job.bounds == Bounds::default()
        && job.links == all
        && job.owner.is_none()
        && job.chmod.is_empty()
        && !job.one_file_system
        && job.roots.iter().all(|root| !matches!(root.pick, Pick::Listed(_)))
}
