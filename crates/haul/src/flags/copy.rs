//! cp, sync and mv: one set of options, three ways to name it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use haul_core::entry::MetaMask;
use haul_core::plan::{Compare, Policy};
use haul_core::spec::{Attributes, Deletion, MaxDelete, Operation, Safety, TransferSpec};
use haul_run::location::Scheme;
use haul_run::plan;
use haul_run::run::JournalChoice;
use haul_s3::flags as objects;

use super::bucket::versioned;
use super::connect::{Connect, ConnectArgs};
use super::global::{Global, Progress};
use super::keep::{self, KeepArgs};
use super::places::PlacesArgs;
use super::regions::RegionArgs;
use super::run::{BatchChoice, Run, RunArgs};
use super::same::{SameArgs, UpdateArgs};
use super::select::{ListedArgs, SelectArgs};
use super::speed::{SpeedArgs, TransportArgs};
use super::{Environment, Refusal};
use crate::units;

/// A command line of cp, sync or mv.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFlags {
    /// What is copied, and how. Without sources where `--files-from` names them; with `list_only`, the destination counts for
    /// nothing.
    pub spec: TransferSpec,
    pub dry: bool,
    pub list_only: bool,
    pub output: CopyOutput,
    pub journal: JournalChoice,
    pub batch: BatchChoice,
    pub connect: Connect,
}

impl CopyFlags {
    /// Those of a transfer that was recorded: see [`plan::recorded`].
    ///
    /// # Errors
    /// As there.
    pub fn of_record(text: &str) -> haul_core::Result<CopyFlags> {
        let (spec, connect) = plan::recorded(text)?;
        let (output, journal, batch) = (CopyOutput::default(), JournalChoice::default(), BatchChoice::default());
        Ok(CopyFlags { spec, dry: false, list_only: false, output, journal, batch, connect })
    }
}

/// What a copy prints beside its summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyOutput {
    /// `-i`.
    pub itemize: bool,
    /// `--stat`.
    pub stat: bool,
    pub failed_to: Option<PathBuf>,
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
    regions: RegionArgs,
    #[command(flatten)]
    accepted: AcceptedArgs,
}

/// An old version is copied whatever its time and that of the object are: of the same size they look alike.
fn restored(policy: Policy, restores: bool) -> Policy {
    match policy.compare {
        Compare::SizeAndTime if restores => Policy { compare: Compare::Never, ..policy },
        _ => policy,
    }
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
    regions: RegionArgs,
    #[command(flatten)]
    accepted: AcceptedArgs,
    /// Give the one SRC the name DST, also a directory; fail if DST is a directory
    #[arg(short = 'T', long, help_heading = "Safety")]
    no_target_directory: bool,
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
    /// In a Slurm job: requeue the job when its time limit, or --deadline, stops the run
    #[arg(long)]
    requeue: bool,
    /// Let a file replace a non-empty directory (sync --delete does)
    #[arg(long)]
    force: bool,
    /// Create missing parents of DST
    #[arg(long)]
    mkpath: bool,
    /// Copy all SRC into the directory DIR, in place of DST
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    target_directory: Option<OsString>,
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
    /// Print one line per change, in rsync's format
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
fn refuse_followed(attributes: &Attributes, remover: &str) -> Result<(), Refusal> {
    if !attributes.links.follow {
        return Ok(());
    }
    Err(format!(
        "-L copies what symlinks point to, and {remover} would remove it where it lies, outside SRC; \
         leave -L out, or copy with -L and remove SRC afterwards"
    ))
}

impl CpArgs {
    pub(super) fn resolve(self, given: &ArgMatches, global: &mut Global, environment: &Environment<'_>) -> Result<CopyFlags, Refusal> {
        self.resolve_as(Operation::Copy, None, given, global, environment)
    }

    fn resolve_as(
        self,
        operation: Operation,
        deletion: Option<Deletion>,
        given: &ArgMatches,
        global: &mut Global,
        environment: &Environment<'_>,
    ) -> Result<CopyFlags, Refusal> {
        let (sources, destination) = self.places.resolve(
            operation,
            self.tree.list_only,
            self.listed.is_given(),
            self.safety.target_directory.as_ref(),
            environment,
        )?;
        let mut selection = self.select.resolve(given, environment)?;
        self.listed.resolve(&mut selection, sources.iter().filter(|s| s.scheme == Scheme::STDIO).count())?;
        selection.recurse_listed = given.get_flag("recursive");
        if selection.files_from.is_some() && deletion.is_some() {
            return Err("--files-from says nothing about what is not in the list, so --delete could not tell what to delete; \
                        leave one out, or make the list an --include-from"
                .into());
        }
        if selection.files_from.is_some() && sources.len() > 1 {
            return Err("the names of --files-from are relative to one SRC; name one source".into());
        }
        if self.tree.inplace && self.tree.backup_dir.is_some() {
            return Err("--inplace writes over the old file that --backup-dir would keep; leave one out".into());
        }
        if self.version_id.is_some() && (operation != Operation::Copy || self.places.paths.len() < 2) {
            return Err("--version-id is for `haul cp` of one object; `haul cat --version-id ID SRC` writes it to standard output".into());
        }
        let restores = self.version_id.is_some() && destination.scheme.keys;
        let mut connect = versioned(self.connect.resolve(), self.version_id, &sources)?;
        self.regions.apply(&mut connect, &sources, &destination);
        let attributes = KeepArgs::resolve(given, Attributes::only(MetaMask::MTIME.with(MetaMask::MODE)), environment)?;
        if self.tree.remove_source_files {
            refuse_followed(&attributes, "--remove-source-files")?;
        }
        self.see.apply(global);
        let Run { limits, failed_to, batch } = self.run.resolve(environment)?;
        let batch = self.safety.requeued(batch)?;
        let spec = TransferSpec {
            selection,
            comparison: restored(self.update.resolve(self.same.resolve()?, self.safety.force)?, restores),
            attributes,
            deletion,
            safety: Safety {
                // A source is removed on the evidence of its copy, not on the word of a write.
                verify: self.safety.verify || self.tree.remove_source_files,
                in_place: self.tree.inplace,
                backup_dir: self.tree.backup_dir,
                link_dest: self.tree.link_dest,
                remove_source: self.tree.remove_source_files,
                ..self.safety.resolve()
            },
            limits,
            performance: self.transport.resolve(self.speed.resolve())?,
            ..TransferSpec::new(operation, sources, destination)
        };
        Ok(CopyFlags {
            spec,
            dry: self.safety.dry_run,
            list_only: self.tree.list_only,
            output: self.see.resolve(failed_to),
            journal: JournalChoice { restart: self.safety.restart, wait: self.safety.wait },
            batch,
            connect,
        })
    }
}

impl SyncArgs {
    pub(super) fn resolve(self, given: &ArgMatches, global: &mut Global, environment: &Environment<'_>) -> Result<CopyFlags, Refusal> {
        let d = &self.delete;
        let deletion = Deletion { excluded: d.delete_excluded, ignore_errors: d.ignore_errors, most: d.max_delete };
        let deletion = (d.delete || d.delete_excluded).then_some(deletion);
        self.copy.resolve_as(Operation::Sync, deletion, given, global, environment)
    }
}

impl MvArgs {
    pub(super) fn resolve(self, given: &ArgMatches, global: &mut Global, environment: &Environment<'_>) -> Result<CopyFlags, Refusal> {
        let (sources, destination) =
            self.places.resolve(Operation::Move, false, false, self.safety.target_directory.as_ref(), environment)?;
        let attributes = KeepArgs::resolve(given, keep::all(), environment)?;
        refuse_followed(&attributes, "mv")?;
        self.see.apply(global);
        let Run { limits, failed_to, batch } = self.run.resolve(environment)?;
        let batch = self.safety.requeued(batch)?;
        let mut connect = self.connect.resolve();
        self.regions.apply(&mut connect, &sources, &destination);
        let spec = TransferSpec {
            comparison: self.update.resolve(self.same.resolve()?, self.safety.force)?,
            attributes,
            safety: Safety { verify: true, remove_source: true, exact: self.no_target_directory, ..self.safety.resolve() },
            limits,
            performance: self.transport.resolve(self.speed.resolve())?,
            ..TransferSpec::new(Operation::Move, sources, destination)
        };
        Ok(CopyFlags {
            spec,
            dry: self.safety.dry_run,
            list_only: false,
            output: self.see.resolve(failed_to),
            journal: JournalChoice { restart: self.safety.restart, wait: self.safety.wait },
            batch,
            connect,
        })
    }
}

impl SafetyArgs {
    fn requeued(&self, batch: BatchChoice) -> Result<BatchChoice, Refusal> {
        if self.requeue && self.dry_run {
            return Err("--requeue has no effect with --dry-run, which copies nothing; omit one".into());
        }
        if self.requeue && batch.unlimited {
            return Err("--requeue has no effect with --deadline none: the job's limit ends the run before it can requeue; omit one".into());
        }
        Ok(BatchChoice { requeue: self.requeue, ..batch })
    }

    fn resolve(&self) -> Safety {
        Safety { verify: self.verify, sync: self.fsync, make_path: self.mkpath, ..Safety::default() }
    }
}

impl SeeArgs {
    fn resolve(&self, failed_to: Option<PathBuf>) -> CopyOutput {
        CopyOutput { itemize: self.itemize_changes, stat: self.stat, failed_to }
    }

    fn apply(&self, global: &mut Global) {
        if self.partial_progress && global.progress == Progress::Auto {
            global.progress = Progress::On;
        }
    }
}
