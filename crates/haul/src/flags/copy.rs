//! cp, sync and mv: one set of options, three ways to name it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use haul_core::entry::MetaMask;
use haul_core::job::MaxDelete;
use haul_core::plan::Policy;

use super::bucket::versioned;
use super::connect::{Connect, ConnectArgs};
use super::global::{Global, Progress};
use super::keep::{Keep, KeepArgs};
use super::run::{Run, RunArgs};
use super::same::{SameArgs, UpdateArgs};
use super::select::{Listed, ListedArgs, Select, SelectArgs};
use super::speed::{Speed, SpeedArgs, Transport, TransportArgs};
use super::{Environment, Refusal, location, locations};
use crate::location::{Location, Scheme};
use crate::units;
use haul_stores::s3::flags as objects;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    Cp,
    Sync,
    /// A copy with everything kept, whose source is removed once the destination is proven.
    Mv,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFlags {
    pub kind: CopyKind,
    /// At least one; exactly one for sync.
    pub sources: Vec<Location>,
    /// `None` only with `list_only` and one address.
    pub destination: Option<Location>,
    pub keep: Keep,
    pub select: Select,
    pub listed: Listed,
    /// `force` in it is `--force`.
    pub policy: Policy,
    /// `None` without `--delete`.
    pub delete: Option<Delete>,
    pub dry: bool,
    pub list_only: bool,
    /// `-i`.
    pub itemize: bool,
    /// `--stat`.
    pub stat: bool,
    pub verify: bool,
    /// `--restart`: forget the journal.
    pub restart: bool,
    /// `--wait`: for a run that holds the same job.
    pub wait: bool,
    pub in_place: bool,
    /// Relative to the destination unless absolute.
    pub backup_dir: Option<PathBuf>,
    /// Each relative to the destination unless absolute; the first that has the file wins.
    pub link_dest: Vec<PathBuf>,
    /// `--remove-source-files`, which implies `verify`; true for mv, which removes emptied directories too.
    pub remove_source: bool,
    pub make_path: bool,
    /// `--fsync`.
    pub sync: bool,
    pub run: Run,
    pub speed: Speed,
    pub transport: Transport,
    pub connect: Connect,
}

/// `--delete` and what bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete {
    pub excluded: bool,
    pub ignore_errors: bool,
    pub max: Option<MaxDelete>,
}

/// Copy files and directories; skips unchanged files
///
/// SRC creates DST/SRC, SRC/ means its contents. A file goes into DST if DST is a directory or ends in a slash.
#[derive(Args)]
#[command(
    override_usage = "haul cp [OPTIONS] SRC... DST",
    before_help = "Examples:
  haul cp -a project /scratch/me          create /scratch/me/project with all attributes
  haul cp results/*.nc /archive/run7/     copy many files into one directory
  haul cp --verify --deadline 5h30m in/ /lustre/out
                                          read back; stop in time, ready to resume"
)]
pub struct CpArgs {
    #[command(flatten)]
    places: PlacesArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    listed: ListedArgs,
    #[command(flatten)]
    same: SameArgs,
    #[command(flatten)]
    update: UpdateArgs,
    #[command(flatten)]
    safety: SafetyArgs,
    #[command(flatten)]
    tree: TreeSafetyArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    see: SeeArgs,
    /// Copy this version of the object SRC (default: the latest)
    #[arg(long, value_name = "ID", value_parser = objects::version, help_heading = "Filters")]
    version_id: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    accepted: AcceptedArgs,
}

/// Make DST identical to SRC; --delete deletes files that SRC does not have
///
/// Like `haul cp` with one source. Deletes come last, and are skipped if anything could not be listed or copied.
#[derive(Args)]
#[command(
    mut_arg("version_id", |arg| arg.hide(true)),
    override_usage = "haul sync [OPTIONS] SRC DST",
    before_help = "Examples:
  haul sync -a --delete home/ /backup/home      mirror home
  haul sync -anv --delete home/ /backup/home    show what that would do
  haul sync --exclude '*.tmp' --exclude /cache/ run/ /archive/run"
)]
pub struct SyncArgs {
    #[command(flatten)]
    copy: CpArgs,
    #[command(flatten)]
    delete: DeleteArgs,
}

/// Move files and directories: copy, verify, then delete SRC
#[derive(Args)]
#[command(
    override_usage = "haul mv [OPTIONS] SRC... DST",
    before_help = "Examples:
  haul mv scratch/run7 /archive/       create /archive/run7
  haul mv -n scratch/* /archive/       show what would be moved"
)]
pub struct MvArgs {
    #[command(flatten)]
    places: PlacesArgs,
    #[command(flatten)]
    keep: KeepArgs,
    #[command(flatten)]
    same: SameArgs,
    #[command(flatten)]
    update: UpdateArgs,
    #[command(flatten)]
    safety: SafetyArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    speed: SpeedArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    see: SeeArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    accepted: AcceptedArgs,
}

#[derive(Args)]
struct PlacesArgs {
    /// One or more SRC, then DST. SRC creates DST/SRC, SRC/ means its contents (haul help addresses)
    #[arg(value_name = "SRC", value_hint = ValueHint::AnyPath)]
    paths: Vec<OsString>,
}

#[derive(Args)]
#[command(next_help_heading = "Safety")]
struct SafetyArgs {
    /// Show what would be done and why, and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Read the destination back and compare it with the data read from the source
    #[arg(long)]
    verify: bool,
    /// Start over: discard the state of an interrupted run
    #[arg(long)]
    restart: bool,
    /// Wait while another run of the same job is active (default: stop)
    #[arg(long)]
    wait: bool,
    /// Let a file replace a non-empty directory
    #[arg(long)]
    force: bool,
    /// Create missing parents of DST
    #[arg(long)]
    mkpath: bool,
    /// fsync before exit
    #[arg(long)]
    fsync: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Safety")]
struct TreeSafetyArgs {
    /// Update in place; an interruption leaves partial files
    #[arg(long)]
    inplace: bool,
    /// Keep replaced and deleted files in DIR, relative to DST
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    backup_dir: Option<PathBuf>,
    /// Hard-link files that are identical in DIR, relative to DST (same file system; if repeated, the first match wins)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    link_dest: Vec<PathBuf>,
    /// Delete each source file after its copy is verified (implies --verify)
    #[arg(long)]
    remove_source_files: bool,
    /// List what would be copied from SRC: mode, size, time, name
    #[arg(long)]
    list_only: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Safety")]
struct DeleteArgs {
    /// Delete files that SRC does not have, after everything else succeeded; excluded files stay
    #[arg(long, visible_aliases = ["delete-after", "delete-delay"])]
    delete: bool,
    /// Delete excluded files too (implies --delete)
    #[arg(long)]
    delete_excluded: bool,
    /// Delete nothing if more than N files or N% of DST would be deleted
    #[arg(long, value_name = "N|N%", value_parser = units::parse_max_delete)]
    max_delete: Option<MaxDelete>,
    /// Delete even if some files could not be read
    #[arg(long)]
    ignore_errors: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Output")]
struct SeeArgs {
    /// Print one line per change, in rsync's format, with the reason
    #[arg(short = 'i', long)]
    itemize_changes: bool,
    /// Print detailed statistics at the end
    #[arg(long, visible_alias = "stats")]
    stat: bool,
    /// Same as --partial --progress
    #[arg(short = 'P')]
    partial_progress: bool,
}

/// What haul does anyway, or has no need of.
#[derive(Args)]
#[command(next_help_heading = "Compatibility options (ignored)")]
struct AcceptedArgs {
    /// Recurse into directories (default)
    #[arg(short, long)]
    recursive: bool,
    /// Keep partial files for the next run (default)
    #[arg(long)]
    partial: bool,
    /// Print human-readable sizes (default); without operands, print the most common options
    #[arg(short = 'h', long)]
    human_readable: bool,
}

/// What a link points to lies elsewhere, and would be removed there.
fn refuse_followed(keep: &Keep, remover: &str) -> Result<(), Refusal> {
    if !keep.links.follow {
        return Ok(());
    }
    Err(format!(
        "-L copies what symlinks point to, and {remover} would remove it where it lies, outside SRC; \
         leave -L out, or copy with -L and remove SRC afterwards"
    ))
}

/// Sources and destination, once the number of arguments is right.
fn places(
    kind: CopyKind,
    args: &PlacesArgs,
    list_only: bool,
    has_list: bool,
    environment: &Environment<'_>,
) -> Result<(Vec<Location>, Option<Location>), Refusal> {
    let (sources, destination) = match (kind, args.paths.as_slice()) {
        (_, []) => return Err("no source and no destination; write SRC and DST (help is -h)".into()),
        (_, [one]) if list_only => (locations(std::slice::from_ref(one), environment)?, None),
        // The list names the sources, by their addresses.
        (CopyKind::Cp, [only]) if has_list => (Vec::new(), Some(location(only, environment)?)),
        (_, [only]) => return Err(format!("{} is the only address; write SRC and DST", haul_core::entry::show(only.as_encoded_bytes()))),
        (CopyKind::Sync, [_, _, _, ..]) => {
            return Err(
                "sync takes one source; `haul cp` takes many, or sync the directory that holds them with --include and --exclude".into()
            );
        }
        (_, [sources @ .., destination]) => (locations(sources, environment)?, Some(location(destination, environment)?)),
    };
    let stdin = sources.iter().filter(|s| s.scheme == Scheme::STDIO).count();
    if stdin > 0 && (kind != CopyKind::Cp || sources.len() > 1) {
        return Err("- (standard input) can only be the one source of `haul cp`; leave out the others".into());
    }
    if stdin > 0 && destination.as_ref().is_some_and(|d| d.scheme == Scheme::STDIO) {
        return Err("from - to - nothing would be copied; `cat` does that".into());
    }
    if kind != CopyKind::Cp && destination.as_ref().is_some_and(|d| d.scheme == Scheme::STDIO) {
        return Err("- (standard output) can only be the destination of `haul cp`; `haul cat` writes files there, too".into());
    }
    Ok((sources, destination))
}

impl CpArgs {
    pub(super) fn resolve(self, given: &ArgMatches, global: &mut Global, environment: &Environment<'_>) -> Result<CopyFlags, Refusal> {
        self.resolve_as(CopyKind::Cp, None, given, global, environment)
    }

    fn resolve_as(
        self,
        kind: CopyKind,
        delete: Option<Delete>,
        given: &ArgMatches,
        global: &mut Global,
        environment: &Environment<'_>,
    ) -> Result<CopyFlags, Refusal> {
        let (sources, destination) = places(kind, &self.places, self.tree.list_only, self.listed.is_given(), environment)?;
        let select = self.select.resolve(given, environment)?;
        let mut listed = self.listed.resolve(&select, sources.iter().filter(|s| s.scheme == Scheme::STDIO).count())?;
        listed.recurse = given.get_flag("recursive");
        if listed.files_from.is_some() && delete.is_some() {
            return Err("--files-from says nothing about what is not in the list, so --delete could not tell what to delete; \
                        leave one out, or make the list an --include-from"
                .into());
        }
        if listed.files_from.is_some() && sources.len() > 1 {
            return Err("the names of --files-from are relative to one SRC; name one source".into());
        }
        if self.tree.inplace && self.tree.backup_dir.is_some() {
            return Err("--inplace writes over the old file that --backup-dir would keep; leave one out".into());
        }
        if self.version_id.is_some() && (kind != CopyKind::Cp || destination.as_ref().is_none_or(|place| place.scheme.keys)) {
            return Err("--version-id is for `haul cp` out of an object store; a copy there can come through standard output: \
                        haul cat --version-id ID SRC | haul cp - DST"
                .into());
        }
        let connect = versioned(self.connect.resolve(), self.version_id, &sources)?;
        let keep = KeepArgs::resolve(given, Keep::only(MetaMask::MTIME.with(MetaMask::MODE)), environment)?;
        if self.tree.remove_source_files {
            refuse_followed(&keep, "--remove-source-files")?;
        }
        self.see.apply(global);
        Ok(CopyFlags {
            kind,
            sources,
            destination,
            keep,
            select,
            listed,
            policy: self.update.resolve(self.same.resolve()?, self.safety.force)?,
            delete,
            dry: self.safety.dry_run,
            list_only: self.tree.list_only,
            itemize: self.see.itemize_changes,
            stat: self.see.stat,
            // A source is removed on the evidence of its copy, not on the word of a write.
            verify: self.safety.verify || self.tree.remove_source_files,
            restart: self.safety.restart,
            wait: self.safety.wait,
            in_place: self.tree.inplace,
            backup_dir: self.tree.backup_dir,
            link_dest: self.tree.link_dest,
            remove_source: self.tree.remove_source_files,
            make_path: self.safety.mkpath,
            sync: self.safety.fsync,
            run: self.run.resolve(environment)?,
            speed: self.speed.resolve(),
            transport: self.transport.resolve()?,
            connect,
        })
    }
}

impl SyncArgs {
    pub(super) fn resolve(self, given: &ArgMatches, global: &mut Global, environment: &Environment<'_>) -> Result<CopyFlags, Refusal> {
        let d = &self.delete;
        let delete = (d.delete || d.delete_excluded).then_some(Delete {
            excluded: d.delete_excluded,
            ignore_errors: d.ignore_errors,
            max: d.max_delete,
        });
        self.copy.resolve_as(CopyKind::Sync, delete, given, global, environment)
    }
}

impl MvArgs {
    pub(super) fn resolve(self, given: &ArgMatches, global: &mut Global, environment: &Environment<'_>) -> Result<CopyFlags, Refusal> {
        let (sources, destination) = places(CopyKind::Mv, &self.places, false, false, environment)?;
        let keep = KeepArgs::resolve(given, Keep::all(), environment)?;
        refuse_followed(&keep, "mv")?;
        self.see.apply(global);
        Ok(CopyFlags {
            kind: CopyKind::Mv,
            sources,
            destination,
            keep,
            select: Select::default(),
            listed: Listed::default(),
            policy: self.update.resolve(self.same.resolve()?, self.safety.force)?,
            delete: None,
            dry: self.safety.dry_run,
            list_only: false,
            itemize: self.see.itemize_changes,
            stat: self.see.stat,
            verify: true,
            restart: self.safety.restart,
            wait: self.safety.wait,
            in_place: false,
            backup_dir: None,
            link_dest: Vec::new(),
            remove_source: true,
            make_path: self.safety.mkpath,
            sync: self.safety.fsync,
            run: self.run.resolve(environment)?,
            speed: self.speed.resolve(),
            transport: self.transport.resolve()?,
            connect: self.connect.resolve(),
        })
    }
}

impl SeeArgs {
    fn apply(&self, global: &mut Global) {
        if self.partial_progress && global.progress == Progress::Auto {
            global.progress = Progress::On;
        }
    }
}
