//! What a store can do.

use std::time::Duration;

use crate::entry::{Entry, Kind, MetaMask, TimeRange};
use crate::error::{Error, ErrorKind, Result};

/// What a store can do, as far as it changes the plan. Found out once, when the store is opened.
#[derive(Clone, Debug)]
pub struct Caps {
    pub write: WriteStyle,
    /// Ranges that were not written read as zeros and take no space.
    pub holes: bool,
    /// `Source::read` may start anywhere.
    pub read_ranges: bool,
    /// Content passes once, from start to end. A source learns its size only at the end ([`super::Source::stream`]); a destination
    /// cannot take back what it has written.
    pub streams: bool,
    /// Directories are things that exist by themselves; else they are only parts of names.
    pub dirs: bool,
    /// Where they are not: `set_meta` on one makes something that carries its attributes, and `list` and `stat` give them.
    pub markers: bool,
    pub links: bool,
    pub specials: bool,
    pub hard_links: bool,
    /// Every call takes a round trip to another machine.
    pub remote: bool,
    /// `commit` puts a whole new file in the place of an old one in one step.
    pub atomic_commit: bool,
    /// What `landed` has confirmed survives a crash of any machine of ours.
    pub durable: bool,
    /// [`super::ServerSide`] copies between places of the same scheme and endpoint, whatever their volumes.
    pub copies: bool,
    /// [`super::NearData::signature`] and [`super::Fill::reuse`] work: changes are found where the content is, without moving it.
    pub signatures: bool,
    /// An unfinished write can be taken up by its token.
    pub attach: bool,
    /// A small new file may be created under its final name (see rules on intents).
    pub direct_create: bool,
    /// What reading back proves.
    pub proof: Proof,
    pub names: NameRules,
    pub attributes: AttributeCaps,
    pub tuning: Tuning,
}

/// Which names a store can have; others are refused.
#[derive(Clone, Debug)]
pub struct NameRules {
    /// Names are file names: no empty part, no `.` or `..`. False for keys of object stores.
    pub files: bool,
    /// Names are UTF-8.
    pub text: bool,
    /// Names are printable ASCII.
    pub plain: bool,
    /// Names have no line breaks.
    pub one_line: bool,
    /// Bytes of a name.
    pub max: usize,
    /// Two names that differ in case only are one.
    pub folds_case: bool,
}

/// Which attributes a store keeps and reports.
#[derive(Clone, Debug)]
pub struct AttributeCaps {
    /// Attributes that `set_meta` and `commit` can keep.
    pub sets: MetaMask,
    /// Those of symlinks: fewer where a request to set them would follow the link.
    pub link_sets: MetaMask,
    /// Names of owners are kept beside their numbers, and entries come with them; an unfinished write is tied to its attributes, but
    /// for [`Token::shared`](super::Token::shared).
    pub owner_names: bool,
    /// Attributes that give rights (setuid, devices, file capabilities) are left out: others may have chosen them.
    pub untrusted: bool,
    /// The groups that entries can be given, where owners cannot be chosen; `None` where any owner and group can.
    pub groups: Option<Vec<u32>>,
    /// Attributes that `list` yields with each entry; without BASIC an entry is looked up by `stat_many`.
    pub lists: MetaMask,
    /// Times closer than this cannot be told apart. Zero where that is not known: a time in fewer decimal places is equal then.
    pub mtime_resolution: Duration,
    /// Times outside of this are stored as its limits; [`time_range::ANY`] where the limits are not known.
    pub mtime_range: TimeRange,
}

/// How many workers and how much of a request gain by a store.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Workers that a run begins with, where each call takes a round trip.
    pub first_workers: u32,
    /// Workers that gain by writing one file at the same time; at least 1.
    pub writers_per_file: u32,
    /// Workers that gain by reading one file at the same time; at least 1.
    pub readers_per_file: u32,
    /// Borders of chunks lie on multiples of so many bytes where files may be written by several; at least 1.
    pub chunk_unit: u64,
    /// Of chunks that follow each other, which one request reads.
    pub runs: Runs,
    /// `landed` confirms any range that was written in a round trip: what comes without a size is confirmed piece by piece.
    pub lands_pieces: bool,
    /// What one bundle may carry.
    pub bundle_bytes: usize,
    pub bundle_files: usize,
}

impl Caps {
    /// Those of a place that can be read from its start to its end and no more: a store names what it can beyond that.
    pub fn minimal() -> Caps {
        Caps {
            write: WriteStyle::InOrder,
            holes: false,
            read_ranges: false,
            streams: false,
            dirs: false,
            markers: false,
            links: false,
            specials: false,
            hard_links: false,
            remote: true,
            atomic_commit: false,
            durable: false,
            copies: false,
            signatures: false,
            attach: false,
            direct_create: false,
            proof: Proof::Server,
            names: NameRules::minimal(),
            attributes: AttributeCaps::minimal(),
            tuning: Tuning::minimal(),
        }
    }

    /// Those of a POSIX file system of this machine that is in memory.
    pub fn posix() -> Caps {
        let (sets, mtime_resolution) = (MetaMask::SETTABLE, Duration::from_nanos(1));
        Caps {
            write: WriteStyle::Anywhere,
            holes: true,
            read_ranges: true,
            dirs: true,
            links: true,
            specials: true,
            hard_links: true,
            remote: false,
            atomic_commit: true,
            direct_create: true,
            proof: Proof::Cache,
            attributes: AttributeCaps { sets, link_sets: sets, lists: MetaMask::BASIC, mtime_resolution, ..AttributeCaps::minimal() },
            tuning: Tuning { bundle_bytes: 1 << 20, bundle_files: 1000, ..Tuning::minimal() },
            ..Caps::minimal()
        }
    }
}

impl NameRules {
    pub fn minimal() -> NameRules {
        NameRules { files: true, text: false, plain: false, one_line: false, max: 255, folds_case: false }
    }
}

impl AttributeCaps {
    pub fn minimal() -> AttributeCaps {
        AttributeCaps {
            sets: MetaMask::NONE,
            link_sets: MetaMask::NONE,
            owner_names: false,
            untrusted: false,
            groups: None,
            lists: MetaMask::NONE,
            mtime_resolution: Duration::from_secs(1),
            mtime_range: time_range::ANY,
        }
    }
}

impl Tuning {
    pub fn minimal() -> Tuning {
        Tuning {
            first_workers: 8,
            writers_per_file: 1,
            readers_per_file: 1,
            chunk_unit: 1,
            runs: Runs::None,
            lands_pieces: false,
            bundle_bytes: 4 << 20,
            bundle_files: 16,
        }
    }
}

/// What file systems and protocols can store as a time.
pub mod time_range {
    use crate::entry::TimeRange;

    /// Whatever fits, or not known.
    pub const ANY: TimeRange = (i64::MIN, i64::MAX);
    /// 1901 to 2038: ext4 with small inodes, XFS without bigtime.
    pub const SMALL: TimeRange = (i32::MIN as i64, i32::MAX as i64);
    /// EXT4_EXTRA_TIMESTAMP_MAX of Linux.
    pub const EXT4: TimeRange = (i32::MIN as i64, 15_032_385_535);
    /// XFS_BIGTIME_TIME_MAX of Linux.
    pub const XFS: TimeRange = (i32::MIN as i64, 16_299_260_424);
    /// 1980 to 2107.
    pub const FAT: TimeRange = (315_532_800, 4_354_819_199);
    /// 1970 to 2038: SFTP of version 3, whose 32 bits servers read with a sign or without.
    pub const SFTP: TimeRange = (0, i32::MAX as i64);
}

/// What `reopen` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Proof {
    /// The medium, past the page cache.
    Medium,
    /// Memory is the medium, or the cache cannot be passed: the bytes as the system holds them.
    Cache,
    /// The server sends the bytes again.
    Server,
}

impl Proof {
    pub fn words(self) -> &'static str {
        match self {
            Proof::Medium => "reread past the page cache",
            Proof::Cache => "reread from memory",
            Proof::Server => "reread from the server",
        }
    }

    /// The same, where the store computed checksums of so many of the files.
    pub fn words_with(self, digests: u64, files: u64) -> &'static str {
        match digests {
            0 => self.words(),
            digests if digests >= files => "checksum computed by the server",
            _ => "checksum computed by the server, or reread",
        }
    }
}

/// Whether each worker reads chunks that follow each other because a request serves several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// Each chunk is a request of its own.
    #[default]
    None,
    /// A request serves to the end of the file, and is cut off where another worker has begun.
    Open,
    /// A request names its end, and is read up to there.
    Fixed,
    /// The same, for so many bytes at the most: one connection does not hold a large part of the file.
    UpTo(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStyle {
    /// POSIX, SFTP, GridFTP mode E: any bytes, anywhere, in any order.
    Anywhere,
    /// S3: numbered parts of a bounded size.
    Parts { least: u64, most: u64, count: u32 },
    /// Plain FTP: one stream; a chunk is a place to resume from. With more than one writer a sink may come to take ranges
    /// ([`super::SinkState::takes_ranges`]).
    InOrder,
}

/// Whether an entry of a source says all that it takes to make another like it. `op` is what an error names.
pub fn check_source(caps: &Caps, entry: &Entry, op: &'static str) -> Result<()> {
    if matches!(entry.kind, Kind::Char | Kind::Block) && !caps.specials {
        let e = Error::new(ErrorKind::Unsupported, op).on(&entry.name);
        return Err(e.because("the source does not report device numbers"));
    }
    if entry.kind == Kind::Link && entry.target.is_none() {
        let e = Error::new(ErrorKind::Other, "read link").on(&entry.name);
        return Err(e.because("the server does not report the symlink's own target"));
    }
    Ok(())
}

/// Whether an entry can be put into a store at all, asked before anything is begun. `op` is what an error names.
pub fn check_destination(caps: &Caps, entry: &Entry, op: &'static str) -> Result<()> {
    let refuse = |kind, reason: &str| Err(Error::new(kind, op).on(&entry.name).because(reason.to_string()));
    if caps.names.files {
        if let Err(reason) = crate::entry::check_leaf(&entry.name.leaf) {
            return refuse(ErrorKind::BadName, reason);
        }
        if entry.name.leaf.len() > caps.names.max {
            return refuse(
                ErrorKind::BadName,
                &format!("the name has {} bytes, the destination allows {}", entry.name.leaf.len(), caps.names.max),
            );
        }
    }
    if caps.names.text && std::str::from_utf8(&entry.name.leaf).is_err() {
        return refuse(ErrorKind::BadName, "the name is not UTF-8, as the destination requires");
    }
    if caps.names.plain && !entry.name.leaf.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return refuse(ErrorKind::BadName, "the destination loses everything from names that is not printable ASCII");
    }
    if caps.names.one_line && entry.name.leaf.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return refuse(ErrorKind::BadName, "the destination cannot have names with a line break");
    }
    match entry.kind {
        Kind::Link if !caps.links => refuse(ErrorKind::Unsupported, "the destination does not support symlinks"),
        kind if kind.is_special() && !caps.specials => refuse(ErrorKind::Unsupported, "the destination does not support special files"),
        _ => Ok(()),
    }
}
