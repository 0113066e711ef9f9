//! The directories of a set: which there are and which entries are in which, by arithmetic alone.
//!
//! Directories are numbered level by level, the top first; entries (files and links) in the order of their directories. Alike
//! directories of one level are a row, so that a tree of millions of directories is some rows.

use super::order::{holder, share};

/// More levels than the names in a path could have.
pub const MOST_DEPTH: u32 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub flat: bool,
    /// Entries in a directory that has any.
    pub per_dir: Option<u64>,
    /// Levels of directories below the top; entries are in the last.
    pub depth: Option<u32>,
    /// Directories in a directory that has any.
    pub width: Option<u64>,
}

impl Shape {
    /// Entries in a directory by default: no problem for file systems and `ls`.
    pub const PER_DIR: u64 = 1000;
}

/// Some directories of one level: their number, and the sums of their entries and subdirectories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub depth: u32,
    pub dirs: u64,
    pub entries: u64,
    pub subdirs: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skeleton {
    rows: Vec<Placed>,
    dirs: u64,
    entries: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    row: Row,
    first_dir: u64,
    first_entry: u64,
    /// The number of the first directory in one of this row.
    first_subdir: u64,
}

impl Skeleton {
    /// From rows by depth without a gap, of which the first is the top alone and each level's directories are the level above's
    /// subdirectories. `Err` says what is wrong.
    pub fn of_rows(rows: &[Row]) -> Result<Skeleton, String> {
        let (mut dirs, mut entries, mut subdir) = (0u64, 0u64, 1u64);
        let mut placed = Vec::with_capacity(rows.len());
        for row in rows {
            placed.push(Placed { row: *row, first_dir: dirs, first_entry: entries, first_subdir: subdir });
            let add = |a: u64, b: u64| a.checked_add(b).ok_or("too many directories or files");
            (dirs, entries, subdir) = (add(dirs, row.dirs)?, add(entries, row.entries)?, add(subdir, row.subdirs)?);
        }
        debug_assert!(rows.first().is_none_or(|top| top.depth == 0 && top.dirs == 1));
        debug_assert_eq!(dirs, subdir);
        Ok(Skeleton { rows: placed, dirs, entries })
    }

    pub fn of_shape(entries: u64, shape: Shape) -> Result<Skeleton, String> {
        let per_dir = shape.per_dir.unwrap_or(Shape::PER_DIR).max(1);
        let unshaped = shape.depth.is_none() && shape.width.is_none();
        if shape.flat || shape.depth == Some(0) || (unshaped && entries <= per_dir) {
            return Skeleton::of_rows(&[Row { depth: 0, dirs: 1, entries, subdirs: 0 }]);
        }
        let needed = entries.div_ceil(per_dir).max(1);
        let (depth, width) = match (shape.depth, shape.width) {
            (Some(depth), Some(width)) => (depth, width),
            (Some(depth), None) => (depth, root(needed, depth)),
            (None, Some(width)) => ((1..=MOST_DEPTH).find(|depth| power(width, *depth) >= needed).unwrap_or(1), width),
            (None, None) => (1, needed),
        };
        // With both given there is nothing left to fit, unless --per-dir is given as well.
        let leaves = if shape.depth.is_some() && shape.width.is_some() { power(width, depth) } else { needed.min(power(width, depth)) };
        if shape.per_dir.is_some() && leaves < needed {
            return Err(format!(
                "{entries} files do not fit: {depth} levels of {width} directories are {leaves} directories with at most {per_dir} files each; \
                 {needed} directories are needed"
            ));
        }
        let level = |at: u32| leaves.div_ceil(power(width, depth - at));
        let rows: Vec<Row> = (0..=depth)
            .map(|at| {
                let last = at == depth;
                Row { depth: at, dirs: level(at), entries: if last { entries } else { 0 }, subdirs: if last { 0 } else { level(at + 1) } }
            })
            .collect();
        Skeleton::of_rows(&rows)
    }

    /// Rows of the same form with `entries` entries in all. Every level keeps a directory, however few are left.
    pub fn scaled(rows: &[Row], entries: u64) -> Vec<Row> {
        let before: u64 = rows.iter().map(|row| row.entries).sum();
        if before == entries {
            return rows.to_vec();
        }
        if before == 0 {
            let mut rows = rows.to_vec();
            rows.iter_mut().last().into_iter().for_each(|last| last.entries = entries);
            return rows;
        }
        let part = |n: u64| (u128::from(n) * u128::from(entries) / u128::from(before)) as u64;
        let (mut dirs, mut sum) = (0u64, 0u64);
        let mut scaled: Vec<Row> = rows
            .iter()
            .map(|row| {
                let (dirs_so_far, entries_so_far) = (part(dirs), part(sum));
                (dirs, sum) = (dirs + row.dirs, sum + row.entries);
                let entries = part(sum) - entries_so_far;
                let own = part(dirs) - dirs_so_far;
                Row { dirs: if row.depth == 0 { 1 } else { own.max(u64::from(entries > 0)) }, entries, ..*row }
            })
            .collect();
        let deepest = scaled.iter().filter(|row| row.dirs > 0).map(|row| row.depth).max().unwrap_or(0);
        for depth in 1..=deepest {
            if scaled.iter().filter(|row| row.depth == depth).all(|row| row.dirs == 0)
                && let Some(first) = scaled.iter_mut().find(|row| row.depth == depth)
            {
                first.dirs = 1;
            }
        }
        scaled.retain(|row| row.dirs > 0);
        hang(&mut scaled);
        scaled
    }

    pub fn dirs(&self) -> u64 {
        self.dirs
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn depth(&self) -> u32 {
        self.rows.last().map_or(0, |placed| placed.row.depth)
    }

    pub fn dir_of(&self, entry: u64) -> u64 {
        let placed = &self.rows[self.rows.partition_point(|placed| placed.first_entry + placed.row.entries <= entry)];
        placed.first_dir + holder(placed.row.entries, placed.row.dirs, entry - placed.first_entry)
    }

    /// The first entry of a directory, and how many it has.
    pub fn entries_of(&self, dir: u64) -> (u64, u64) {
        let placed = self.row_of(dir);
        let (first, many) = share(placed.row.entries, placed.row.dirs, dir - placed.first_dir);
        (placed.first_entry + first, many)
    }

    /// The first directory in a directory, and how many it has.
    pub fn subdirs_of(&self, dir: u64) -> (u64, u64) {
        let placed = self.row_of(dir);
        let (first, many) = share(placed.row.subdirs, placed.row.dirs, dir - placed.first_dir);
        (placed.first_subdir + first, many)
    }

    /// `None` for the top.
    pub fn parent(&self, dir: u64) -> Option<u64> {
        if dir == 0 {
            return None;
        }
        let placed = &self.rows[self.rows.partition_point(|placed| placed.first_subdir + placed.row.subdirs <= dir)];
        Some(placed.first_dir + holder(placed.row.subdirs, placed.row.dirs, dir - placed.first_subdir))
    }

    /// The directories of a level: from, and up to but not including.
    pub fn level(&self, depth: u32) -> std::ops::Range<u64> {
        let start = |depth: u32| self.rows.iter().find(|placed| placed.row.depth >= depth).map_or(self.dirs, |placed| placed.first_dir);
        start(depth)..start(depth + 1)
    }

    fn row_of(&self, dir: u64) -> &Placed {
        &self.rows[self.rows.partition_point(|placed| placed.first_dir + placed.row.dirs <= dir)]
    }
}

/// Gives every level the next one's directories as subdirectories, in the proportion in which it had some.
pub fn hang(rows: &mut [Row]) {
    let deepest = rows.last().map_or(0, |row| row.depth);
    for depth in 0..=deepest {
        let below: u64 = rows.iter().filter(|row| row.depth == depth + 1).map(|row| row.dirs).sum();
        let own: Vec<&mut Row> = rows.iter_mut().filter(|row| row.depth == depth).collect();
        let before: u64 = own.iter().map(|row| row.subdirs).sum();
        // Where none had any, the last has them all.
        let (mut sum, last) = (0u64, own.len().saturating_sub(1));
        for (at, row) in own.into_iter().enumerate() {
            let weight = if before == 0 { u64::from(at == last) } else { row.subdirs };
            let part = |n: u64| (u128::from(below) * u128::from(n) / u128::from(before.max(1))) as u64;
            row.subdirs = part(sum + weight) - part(sum);
            sum += weight;
        }
    }
}

/// `base` to the power, at most `u64::MAX`.
fn power(base: u64, to: u32) -> u64 {
    base.checked_pow(to).unwrap_or(u64::MAX)
}

/// The smallest number whose power reaches `of`.
fn root(of: u64, to: u32) -> u64 {
    let guess = (of as f64).powf(1.0 / f64::from(to.max(1))) as u64;
    (guess.saturating_sub(1).max(1)..).find(|base| power(*base, to) >= of).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What must hold of any skeleton.
    fn holds(skeleton: &Skeleton) {
        let (mut entries, mut subdirs) = (0, 1);
        for dir in 0..skeleton.dirs() {
            let (first, many) = skeleton.entries_of(dir);
            assert_eq!(first, entries);
            for entry in first..first + many {
                assert_eq!(skeleton.dir_of(entry), dir);
            }
            entries += many;
            let (first, many) = skeleton.subdirs_of(dir);
            assert_eq!(first, subdirs);
            for below in first..first + many {
                assert_eq!(skeleton.parent(below), Some(dir));
            }
            subdirs += many;
        }
        assert_eq!((entries, subdirs), (skeleton.entries(), skeleton.dirs()));
        let levels: Vec<u64> = (0..=skeleton.depth()).flat_map(|depth| skeleton.level(depth)).collect();
        assert!(levels.into_iter().eq(0..skeleton.dirs()));
    }

    fn shape(flat: bool, per_dir: Option<u64>, depth: Option<u32>, width: Option<u64>) -> Shape {
        Shape { flat, per_dir, depth, width }
    }

    #[test]
    fn a_shape_is_what_its_words_say() {
        let of = |entries, shape| {
            let skeleton = Skeleton::of_shape(entries, shape).unwrap();
            holds(&skeleton);
            (skeleton.dirs() - 1, skeleton.depth())
        };
        assert_eq!(of(1000, Shape::default()), (0, 0));
        assert_eq!(of(1001, Shape::default()), (2, 1));
        assert_eq!(of(37_760, Shape::default()), (38, 1));
        assert_eq!(of(37_760, shape(true, None, None, None)), (0, 0));
        assert_eq!(of(100, shape(false, Some(10), None, None)), (10, 1));
        assert_eq!(of(10, shape(false, None, Some(3), None)), (3, 3));
        assert_eq!(of(10, shape(false, None, Some(3), Some(4))), (4 + 16 + 64, 3));
        assert_eq!(of(1000, shape(false, Some(10), Some(2), None)), (10 + 100, 2));
        assert_eq!(of(1000, shape(false, Some(10), None, Some(10))), (10 + 100, 2));
        let refused = Skeleton::of_shape(1000, shape(false, Some(10), Some(1), Some(10))).unwrap_err();
        assert!(refused.contains("100 directories are needed"), "{refused}");
    }

    proptest! {
        #[test]
        fn every_shape_holds(entries in 0u64..2000, per_dir in prop::option::of(1u64..200), depth in prop::option::of(0u32..4), width in prop::option::of(1u64..6)) {
            let per_dir = per_dir.filter(|_| depth.is_none() || width.is_none());
            if let Ok(skeleton) = Skeleton::of_shape(entries, shape(false, per_dir, depth, width)) {
                prop_assert_eq!(skeleton.entries(), entries);
                holds(&skeleton);
            }
        }

        #[test]
        fn scaled_rows_hold(levels in prop::collection::vec((1u64..30, 0u64..300), 0..6), entries in 0u64..3000) {
            let mut rows = vec![Row { depth: 0, dirs: 1, entries: 3, subdirs: 0 }];
            for (at, (dirs, entries)) in levels.iter().enumerate() {
                rows.push(Row { depth: at as u32 + 1, dirs: *dirs, entries: *entries, subdirs: 0 });
                rows.push(Row { depth: at as u32 + 1, dirs: 1, entries: 0, subdirs: 1 });
            }
            hang(&mut rows);
            holds(&Skeleton::of_rows(&rows).unwrap());
            let scaled = Skeleton::of_rows(&Skeleton::scaled(&rows, entries)).unwrap();
            prop_assert_eq!(scaled.entries(), entries);
            holds(&scaled);
        }
    }
}
