//! A data set before any of it is made: every file by its number, and the totals.

use haul_core::entry::Time;
use haul_core::hash::xxh128;

use super::content::Content;
use super::law::Law;
use super::names::Names;
use super::order::{Order, mix};
use super::skeleton::{Shape, Skeleton};
use super::spec::{MOST_FILES, Set, Spec};

/// Everything about a data set that its [`Spec`] does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub seed: u64,
    /// Presets and trees that were read have a shape of their own, unless something is said here.
    pub shape: Shape,
    /// Percent of every block that compresses.
    pub compressible: u32,
    /// Percent of the files' length that is hole.
    pub sparse: u32,
    /// Links for every hundred files, beside them.
    pub hard_links: u32,
    pub symlinks: u32,
    /// Attributes `user.haul.0` and so on of every file.
    pub xattrs: u32,
    /// Percent of names that programs trip over.
    pub odd_names: u32,
}

/// What a plan comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Regular files.
    pub files: u64,
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Without the top.
    pub dirs: u64,
    /// Lengths of the files together.
    pub bytes: u64,
    /// Of that what is not hole.
    pub stored: u64,
    /// What that takes in blocks of `GRAIN` bytes, which is what a file system must have free.
    pub allocated: u64,
    pub largest: u64,
    /// Levels of directories below the top.
    pub depth: u32,
}

/// The block of most file systems, in bytes.
pub const GRAIN: u64 = 4096;

impl Totals {
    /// Files and links: what has a name and is no directory.
    pub fn entries(&self) -> u64 {
        self.files + self.symlinks + self.hard_links
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Regular,
    /// To the entry of that number of the same set.
    Symlink(u64),
    /// Another name of the entry of that number of the same set.
    HardLink(u64),
}

/// A file or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub kind: Kind,
    /// Bytes; 0 for a symbolic link, and those of the file that a hard link names.
    pub size: u64,
    /// Of the content and the times.
    pub seed: u64,
}

/// A file or link with its path below the top, for those who want all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: Vec<u8>,
    pub file: File,
}

/// Files by size: of each power of two, how many are at least as large and below the next, and their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub Vec<Bin>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes; the first bin is that of empty files, from 0.
    pub from: u64,
    pub files: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub parts: Vec<Part>,
    pub content: Content,
    pub xattrs: u32,
    totals: Totals,
    histogram: Histogram,
}

/// The files of one set, with the directories that they are in.
#[derive(Clone, Debug)]
pub struct Part {
    /// The directory below the top that everything of it is in; empty for the top itself.
    pub folder: String,
    pub name: String,
    pub skeleton: Skeleton,
    pub totals: Totals,
    laws: Vec<Law>,
    /// The first rank of each law.
    starts: Vec<u64>,
    /// Places of entries: symbolic links first, then hard links, then files.
    order: Order,
    shuffled: bool,
    names: Names,
    seed: u64,
}

impl Plan {
    /// `Err` says why there can be no such set.
    pub fn new(spec: &Spec, options: &Options) -> Result<Plan, String> {
        let text = format!("{};{};{}", spec.text, options.compressible, options.sparse);
        let seed = mix(options.seed ^ xxh128(text.as_bytes()) as u64);
        let content = Content::new(options.compressible, options.sparse);
        let mut parts = Vec::with_capacity(spec.sets.len());
        let (mut totals, mut bins) = (Totals::default(), [Bin::default(); 65]);
        for (at, set) in spec.sets.iter().enumerate() {
            let mut part = Part::new(set, options, mix(seed ^ at as u64))?;
            part.weigh(&content, &mut bins)?;
            let own = part.totals;
            let add = |a: u64, b: u64| a.checked_add(b).ok_or("these are more bytes than any file system has (2^64)");
            totals = Totals {
                files: totals.files + own.files,
                symlinks: totals.symlinks + own.symlinks,
                hard_links: totals.hard_links + own.hard_links,
                dirs: totals.dirs + own.dirs,
                bytes: add(totals.bytes, own.bytes)?,
                stored: add(totals.stored, own.stored)?,
                allocated: add(totals.allocated, own.allocated)?,
                largest: totals.largest.max(own.largest),
                depth: totals.depth.max(own.depth),
            };
            parts.push(part);
        }
        if totals.entries() > 2 * MOST_FILES || totals.dirs > MOST_FILES {
            return Err(format!(
                "{} files and links in {} directories are too many; {MOST_FILES} is the most",
                totals.entries(),
                totals.dirs
            ));
        }
        let histogram = Histogram(bins.into_iter().filter(|bin| bin.files > 0).collect());
        Ok(Plan { parts, content, xattrs: options.xattrs, totals, histogram })
    }

    pub fn totals(&self) -> Totals {
        self.totals
    }

    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Every file and link with its path, in no order that means anything.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.parts
            .iter()
            .flat_map(|part| (0..part.skeleton.entries()).map(|number| Entry { path: part.path(number), file: part.file(number) }))
    }
}

impl Part {
    fn new(set: &Set, options: &Options, seed: u64) -> Result<Part, String> {
        let files = set.files();
        let percent = |percent: u32| (u128::from(files) * u128::from(percent) / 100) as u64;
        let symlinks = set.symlinks + percent(options.symlinks);
        let hard_links = set.hard_links + percent(options.hard_links);
        let entries = files + symlinks + hard_links;
        let skeleton = match &set.rows {
            Some(rows) if options.shape == Shape::default() => Skeleton::of_rows(&Skeleton::scaled(rows, entries))?,
            _ => Skeleton::of_shape(entries, options.shape)?,
        };
        if skeleton.dirs() > MOST_FILES {
            return Err(format!("{} directories are too many; {MOST_FILES} is the most", skeleton.dirs()));
        }
        let mut names = Names::new(mix(seed ^ 1), options.odd_names, entries, skeleton.dirs());
        if let Some(name) = set.file_name {
            names = names.called(name);
        }
        if let Some(lengths) = &set.lengths {
            names = names.with_lengths(lengths);
        }
        let laws = match (set.total, &set.laws[..]) {
            (Some(total), [Law::Lognormal { count, sigma, .. }]) => vec![Law::summing(*count, *sigma, total, mix(seed ^ 2))],
            _ => set.laws.clone(),
        };
        let starts = laws
            .iter()
            .scan(0, |next, law| {
                *next += law.count();
                Some(*next - law.count())
            })
            .collect();
        let dirs = skeleton.dirs() - u64::from(set.folder.is_empty());
        let depth = skeleton.depth() + u32::from(!set.folder.is_empty());
        let totals = Totals { files, symlinks, hard_links, dirs, depth, ..Totals::default() };
        let drawn = laws.iter().any(|law| !matches!(law, Law::Even { .. }));
        let shuffled = set.shuffled || drawn || symlinks + hard_links > 0;
        let order = Order::new(entries, seed ^ 3);
        Ok(Part { folder: set.folder.clone(), name: set.name.clone(), skeleton, totals, laws, starts, order, shuffled, names, seed })
    }

    /// Adds up what all files come to.
    fn weigh(&mut self, content: &Content, bins: &mut [Bin; 65]) -> Result<(), String> {
        for number in 0..self.skeleton.entries() {
            let file = self.file(number);
            if file.kind != Kind::Regular {
                continue;
            }
            let add = |a: u64, b: u64| a.checked_add(b).ok_or("these are more bytes than any file system has (2^64)");
            self.totals.bytes = add(self.totals.bytes, file.size)?;
            let stored = content.stored(file.seed, file.size);
            self.totals.stored = add(self.totals.stored, stored)?;
            self.totals.allocated = add(self.totals.allocated, stored.next_multiple_of(GRAIN))?;
            self.totals.largest = self.totals.largest.max(file.size);
            let (at, from) = file.size.checked_ilog2().map_or((0, 0), |log| (log as usize + 1, 1 << log));
            bins[at] = Bin { from, files: bins[at].files + 1, bytes: bins[at].bytes.saturating_add(file.size) };
        }
        Ok(())
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
            // What has two names has one content and one time.
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

    /// The folder's for directory 0 of a part that has one; that of the top itself is empty.
    pub fn dir_name(&self, dir: u64) -> Vec<u8> {
        let Some(parent) = self.skeleton.parent(dir) else { return self.folder.clone().into_bytes() };
        let (first, _) = self.skeleton.subdirs_of(parent);
        self.names.dir(dir, self.skeleton.entries_of(parent).1 + dir - first)
    }

    pub fn dir_seed(&self, dir: u64) -> u64 {
        mix(self.seed ^ mix(!dir))
    }

    /// From the top of everything to a directory: each one's number, without the top itself.
    pub fn way(&self, dir: u64) -> Vec<u64> {
        let mut way: Vec<u64> = std::iter::successors(Some(dir), |dir| self.skeleton.parent(*dir)).collect();
        if self.folder.is_empty() {
            way.pop();
        }
        way.reverse();
        way
    }

    pub fn dir_path(&self, dir: u64) -> Vec<u8> {
        self.way(dir).into_iter().map(|dir| self.dir_name(dir)).collect::<Vec<_>>().join(&b'/')
    }

    /// Below the top of everything.
    pub fn path(&self, number: u64) -> Vec<u8> {
        let mut path = self.dir_path(self.skeleton.dir_of(number));
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend(self.file_name(number));
        path
    }

    /// What a symbolic link holds: the way from its directory to another entry. A way that no link can hold (4095 bytes) is a
    /// link to the name alone, which dangles.
    pub fn target(&self, link: u64, to: u64) -> Vec<u8> {
        let (from, at) = (self.way(self.skeleton.dir_of(link)), self.way(self.skeleton.dir_of(to)));
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

/// When a file was modified: a moment from 2017 to 2023 that its seed tells, so that no file made now has it by chance.
pub fn mtime(seed: u64) -> Time {
    let drawn = mix(seed ^ 0x006d_7469_6d65);
    Time { secs: 1_500_000_000 + (drawn % 200_000_000) as i64, nanos: (mix(drawn) % 1_000_000_000) as u32 }
}

#[cfg(test)]
mod tests;
