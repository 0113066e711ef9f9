//! The settings of a run, and the files and bytes that follow from them.

use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Space;
use serde::{Serialize, Serializer};

use super::operation::Operation;
use super::place::{Layout, Manner, Place};

/// Bytes of one read or write at most, by default: as in smallfile.
const RECORD: u64 = 1 << 20;
/// Bytes of the buffers of all threads.
const MOST_BUFFERS: u64 = 1 << 30;
/// Space is given in pieces of this size nearly everywhere.
const BLOCK: u64 = 4 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Count {
    #[serde(rename = "file_count")]
    Each(u64),
    /// Of all threads together.
    #[serde(rename = "total")]
    Total(u64),
}

/// In JSON as a run directory has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Settings {
    pub operations: Vec<Operation>,
    /// From 1 to 1,024 each.
    pub threads: Vec<u32>,
    /// Bytes.
    #[serde(rename = "file_sizes")]
    pub sizes: Vec<u64>,
    /// Whether all threads share their directories; with both values each case is run twice.
    pub same_dir: Vec<bool>,
    #[serde(flatten)]
    pub count: Count,
    /// At least 1: of one thread, in one directory.
    pub files_per_dir: u64,
    /// Bytes of one read or write; `None` is the file's size, 1 MiB at the most.
    #[serde(rename = "record_size")]
    pub record: Option<u64>,
    #[serde(flatten)]
    pub manner: Manner,
    /// No operation is measured, and no preparation made, for longer.
    #[serde(rename = "duration_seconds", serialize_with = "seconds")]
    pub limit: Option<Duration>,
    pub repeat: u32,
}

fn seconds<S: Serializer>(limit: &Option<Duration>, to: S) -> std::result::Result<S::Ok, S::Error> {
    limit.map(|limit| limit.as_secs_f64()).serialize(to)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub threads: u32,
    pub size: u64,
    pub same_dir: bool,
}

impl Settings {
    pub fn cases(&self) -> Vec<Case> {
        let of = |same_dir: bool, size: u64| self.threads.iter().map(move |threads| Case { threads: *threads, size, same_dir });
        let each = |same_dir: bool| self.sizes.iter().flat_map(move |size| of(same_dir, *size));
        self.same_dir.iter().flat_map(|same_dir| each(*same_dir)).collect()
    }

    pub fn layout(&self, case: Case) -> Layout {
        let threads = u64::from(case.threads);
        let counts = (0..threads).map(|thread| match self.count {
            Count::Each(count) => count,
            Count::Total(total) => total / threads + u64::from(thread < total % threads),
        });
        Layout { same_dir: case.same_dir, files_per_dir: self.files_per_dir, counts: counts.collect() }
    }

    pub fn record_of(&self, size: u64) -> usize {
        self.record.unwrap_or(RECORD).min(size.max(1)) as usize
    }

    /// The most space that any case uses.
    pub fn needs(&self) -> Space {
        let appends = self.operations.iter().filter(|op| **op == Operation::Append).count() as u64;
        // A store writes a new file before it replaces the old one.
        let beside = u64::from(self.operations.contains(&Operation::Symlink))
            + u64::from(self.operations.iter().any(|op| matches!(op, Operation::Mkdir | Operation::Rmdir)));
        let of = |case: Case| {
            let layout = self.layout(case);
            let files: u64 = layout.counts.iter().sum();
            let bytes = case.size.saturating_mul(appends + 1).checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX);
            let dirs = 2 * layout.counts.iter().map(|count| count.div_ceil(self.files_per_dir)).sum::<u64>() + 4;
            Space { bytes: files.saturating_mul(bytes), files: files.saturating_mul(1 + beside).saturating_add(dirs) }
        };
        let all = self.cases().into_iter().map(of);
        all.fold(Space { bytes: 0, files: 0 }, |most, one| Space { bytes: most.bytes.max(one.bytes), files: most.files.max(one.files) })
    }

    /// `Usage` for settings that cannot be measured.
    pub fn check(&self) -> Result<()> {
        let most = self.threads.iter().copied().max().unwrap_or(0);
        let refuse = |reason: String, hint: &str| Err(Error::new(ErrorKind::Usage, "bench files").because(reason).hint(hint));
        let record = self.sizes.iter().map(|size| self.record_of(*size) as u64).max().unwrap_or(0);
        if record * u64::from(most) > MOST_BUFFERS {
            let reason = format!("{most} threads with records of {record} bytes would take more than 1 GiB of memory");
            return refuse(reason, "make --record-size smaller, or ask for fewer --threads");
        }
        match self.count {
            Count::Each(0) | Count::Total(0) => refuse("no files were asked for".into(), "--file-count is 1 or more"),
            Count::Total(total) if total < u64::from(most) => {
                refuse(format!("{total} files cannot be split over {most} threads"), "give a larger --total")
            }
            _ => Ok(()),
        }
    }

    /// `NoSpace` where the files would not fit.
    pub fn check_space(&self, place: &dyn Place) -> Result<()> {
        let Some(space) = place.space()? else { return Ok(()) };
        let needs = self.needs();
        let refuse = |words: String| {
            let e = Error::new(ErrorKind::NoSpace, "bench files").at(place.words().as_bytes());
            Err(e.because(words).hint("make --file-size or --file-count smaller"))
        };
        if needs.bytes > space.bytes {
            let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
            return refuse(format!("the files need {} MiB, {} MiB are free", mebibytes(needs.bytes), space.bytes >> 20));
        }
        if needs.files > space.files {
            return refuse(format!("the run needs {} inodes, {} are free", needs.files, space.files));
        }
        Ok(())
    }
}
