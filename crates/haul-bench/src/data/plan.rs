//! A data set before it is created: every file by its number, and the totals.

use haul_core::entry::Time;
use haul_core::hash::xxh128;
use serde::Serialize;

use super::content::Content;
use super::law::Law;
use super::names::Names;
use super::order::{Order, mix};
use super::skeleton::{Shape, Skeleton};
use super::spec::{MOST_FILES, Spec};

/// Everything about a data set that its [`Spec`] does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub seed: u64,
    /// The default keeps the shape of a tree that was read.
    pub shape: Shape,
    /// Percent of every block that compresses.
    pub compressible: u32,
    /// Percent of the files' length that is hole.
    pub sparse: u32,
    /// Links for every hundred files, in addition to them.
    pub hard_links: u32,
    pub symlinks: u32,
    /// Attributes `user.haul.0` and so on of every file.
    pub xattrs: u32,
    /// Percent of names that programs trip over.
    pub odd_names: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub files: u64,
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Without the top.
    pub dirs: u64,
    /// Lengths of the files together.
    pub bytes: u64,
    /// The same without holes.
    #[serde(rename = "stored_bytes")]
    pub stored: u64,
    /// The same in blocks of `BLOCK` bytes, which a file system must have free.
    #[serde(skip)]
    pub allocated: u64,
    #[serde(rename = "largest_bytes")]
    pub largest: u64,
    /// Levels of directories below the top.
    #[serde(rename = "levels")]
    pub depth: u32,
}

/// The block of most file systems, in bytes.
pub const BLOCK: u64 = 4096;

impl Totals {
    /// Files and links.
    pub fn entries(&self) -> u64 {
        self.files + self.symlinks + self.hard_links
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Regular,
    /// To the entry of that number.
    Symlink(u64),
    /// Another name of the entry of that number.
    HardLink(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub kind: Kind,
    /// Bytes; 0 for a symbolic link, and those of the file that a hard link names.
    pub size: u64,
    /// Of the content and the times.
    pub seed: u64,
}

/// Files by size: how many are at least as large as a power of two and below the next, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Bytes; the first bin is that of empty files, from 0.
    #[serde(rename = "from_bytes")]
    pub from: u64,
    pub files: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub skeleton: Skeleton,
    pub content: Content,
    pub xattrs: u32,
    totals: Totals,
    histogram: Vec<Bin>,
    laws: Vec<Law>,
    /// The first rank of each law.
    starts: Vec<u64>,
    /// Places of entries: symbolic links first, then hard links, then files.
    order: Order,
    shuffled: bool,
    names: Names,
    seed: u64,
}

const TOO_LARGE: &str = "these are more bytes than any file system has (2^64)";

impl Plan {
    /// Errors: why there can be no such set.
    pub fn new(spec: &Spec, options: &Options) -> Result<Plan, String> {
        let text = format!("{};{};{}", spec.text, options.compressible, options.sparse);
        let seed = mix(mix(options.seed ^ xxh128(text.as_bytes()) as u64));
        let files = spec.files();
        let percent = |percent: u32| (u128::from(files) * u128::from(percent) / 100) as u64;
        let (symlinks, hard_links) = (spec.symlinks + percent(options.symlinks), spec.hard_links + percent(options.hard_links));
        let entries = files + symlinks + hard_links;
        let skeleton = match &spec.rows {
            Some(rows) if options.shape == Shape::default() => Skeleton::of_rows(&Skeleton::scaled(rows, entries))?,
            _ => Skeleton::of_shape(entries, options.shape)?,
        };
        if entries > 2 * MOST_FILES || skeleton.dirs() > MOST_FILES {
            let dirs = skeleton.dirs();
            return Err(format!("{entries} files and links in {dirs} directories are too many; {MOST_FILES} is the most"));
        }
        let mut names = Names::new(mix(seed ^ 1), options.odd_names, entries, skeleton.dirs());
        if let Some(lengths) = &spec.lengths {
            names = names.with_lengths(lengths);
        }
        let starts = spec.laws.iter().scan(0, |next, law| {
            *next += law.count();
            Some(*next - law.count())
        });
        let drawn = spec.laws.iter().any(|law| !matches!(law, Law::Even { .. }));
        let mut plan = Plan {
            totals: Totals { files, symlinks, hard_links, dirs: skeleton.dirs() - 1, depth: skeleton.depth(), ..Totals::default() },
            skeleton,
            content: Content::new(options.compressible, options.sparse),
            xattrs: options.xattrs,
            histogram: Vec::new(),
            laws: spec.laws.clone(),
            starts: starts.collect(),
            order: Order::new(entries, seed ^ 3),
            shuffled: spec.shuffled || drawn || symlinks + hard_links > 0,
            names,
            seed,
        };
        plan.weigh()?;
        Ok(plan)
    }

    fn weigh(&mut self) -> Result<(), String> {
        let (mut totals, mut bins) = (self.totals, [Bin::default(); 65]);
        for file in (0..self.skeleton.entries()).map(|number| self.file(number)).filter(|file| file.kind == Kind::Regular) {
            let stored = self.content.stored(file.seed, file.size);
            let (at, from) = file.size.checked_ilog2().map_or((0, 0), |log| (log as usize + 1, 1 << log));
            bins[at] = Bin { from, files: bins[at].files + 1, bytes: bins[at].bytes.saturating_add(file.size) };
            totals.bytes = totals.bytes.checked_add(file.size).ok_or(TOO_LARGE)?;
            totals.stored += stored;
            totals.allocated = totals.allocated.checked_add(stored.next_multiple_of(BLOCK)).ok_or(TOO_LARGE)?;
            totals.largest = totals.largest.max(file.size);
        }
        (self.totals, self.histogram) = (totals, bins.into_iter().filter(|bin| bin.files > 0).collect());
        Ok(())
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    pub fn histogram(&self) -> &[Bin] {
        &self.histogram
    }

    /// The rank of an entry: where it comes when links are sorted before files.
    fn rank(&self, number: u64) -> u64 {
        if self.shuffled { self.order.place(number) } else { number }
    }

    fn number(&self, rank: u64) -> u64 {
        if self.shuffled { self.order.number(rank) } else { rank }
    }

    /// An entry by its number, below the skeleton's entries.
    pub fn file(&self, number: u64) -> File {
        let (symlinks, links) = (self.totals.symlinks, self.totals.symlinks + self.totals.hard_links);
        let rank = self.rank(number);
        let seed = mix(self.seed ^ mix(number));
        // Links share the files out in turn.
        let of = |nth: u64| self.number(links + nth % self.totals.files.max(1));
        let kind = match rank {
            _ if rank < symlinks => Kind::Symlink(of(rank)),
            _ if rank < links => Kind::HardLink(of(rank - symlinks)),
            _ => Kind::Regular,
        };
        match kind {
            Kind::Regular => File { kind, size: self.size(rank - links), seed },
            Kind::Symlink(_) => File { kind, size: 0, seed },
            // Two names of a file have one content and one time.
            Kind::HardLink(leader) => File { kind, ..self.file(leader) },
        }
    }

    fn size(&self, rank: u64) -> u64 {
        let at = self.starts.partition_point(|start| *start <= rank) - 1;
        self.laws[at].size(rank - self.starts[at], mix(self.seed ^ 2 ^ (at as u64) << 32))
    }

    pub fn file_name(&self, number: u64) -> Vec<u8> {
        let (first, _) = self.skeleton.entries_of(self.skeleton.dir_of(number));
        self.names.file(number, number - first)
    }

    /// That of the top is empty.
    pub fn dir_name(&self, dir: u64) -> Vec<u8> {
        let Some(parent) = self.skeleton.parent(dir) else { return Vec::new() };
        let (first, _) = self.skeleton.subdirs_of(parent);
        self.names.dir(dir, self.skeleton.entries_of(parent).1 + dir - first)
    }

    pub fn dir_seed(&self, dir: u64) -> u64 {
        mix(self.seed ^ mix(!dir))
    }

    /// From the top to a directory: each one's number, without the top itself.
    pub fn route(&self, dir: u64) -> Vec<u64> {
        let mut route: Vec<u64> = std::iter::successors(Some(dir), |dir| self.skeleton.parent(*dir)).filter(|dir| *dir > 0).collect();
        route.reverse();
        route
    }

    pub fn dir_path(&self, dir: u64) -> Vec<u8> {
        self.route(dir).into_iter().map(|dir| self.dir_name(dir)).collect::<Vec<_>>().join(&b'/')
    }

    /// Below the top.
    pub fn path(&self, number: u64) -> Vec<u8> {
        let mut path = self.dir_path(self.skeleton.dir_of(number));
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(self.file_name(number));
        path
    }

    /// The target of a symbolic link: a relative path to another entry. Where that is too long for a link (4095 bytes), the name
    /// alone, which dangles.
    pub fn target(&self, link: u64, to: u64) -> Vec<u8> {
        let (from, at) = (self.route(self.skeleton.dir_of(link)), self.route(self.skeleton.dir_of(to)));
        let shared = from.iter().zip(&at).take_while(|(a, b)| a == b).count();
        let mut target = b"../".repeat(from.len() - shared);
        for dir in &at[shared..] {
            target.extend(self.dir_name(*dir));
            target.push(b'/');
        }
        target.extend(self.file_name(to));
        if target.len() > 4095 { self.file_name(to) } else { target }
    }
}

/// The modification time of a file: between 2017 and 2023, by its seed, so that no file made now has it by chance.
pub fn mtime(seed: u64) -> Time {
    let drawn = mix(seed ^ 0x006d_7469_6d65);
    Time { secs: 1_500_000_000 + (drawn % 200_000_000) as i64, nanos: (mix(drawn) % 1_000_000_000) as u32 }
}

#[cfg(test)]
mod tests;
